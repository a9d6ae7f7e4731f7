#include "text/tokenizer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "base/str.h"
#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/pre_tokenizer.h"
#include "text/special_trie.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace evros::text {
namespace {

constexpr std::string_view kMark = "\xEF\xB7\x90";  // U+FDD0, see Tokenizer::defuse
constexpr size_t kMaxTextBytes = size_t{1} << 30;   // keeps every offset of the merge queue in 32 bits

/// The byte of a token written "<0xHH>".
std::optional<char> byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  unsigned value = 0;
  const auto end = std::from_chars(text.data() + 3, text.data() + 5, value, 16).ptr;
  if (end != text.data() + 5) return std::nullopt;
  return static_cast<char>(static_cast<uint8_t>(value));
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (size_t at = 0;;) {
    const size_t next = text.find(from, at);
    out.append(text.substr(at, next - at));
    if (next == std::string_view::npos) return out;
    out.append(to);
    at = next + from.size();
  }
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(size_t merges) : table(merges) {}

  Status load_tokens(const Vocabulary& vocabulary);
  Status load_merges(const Vocabulary& vocabulary, std::string_view where);
  Status load_eos(const std::vector<int64_t>& ids);

  Status encode_pieces(std::string_view text, std::vector<int32_t>& out) const;
  Status encode_normalized(std::string_view text, bool parse, std::vector<int32_t>& out) const;
  Status encode_plain(std::string_view text, bool parse, std::vector<int32_t>& out) const;
  std::string_view bytes_of(int64_t id) const {
    const size_t i = static_cast<size_t>(id);
    return std::string_view(bytes).substr(ends[i], ends[i + 1] - ends[i]);
  }

  std::string bytes;            // of all tokens
  std::vector<size_t> ends{0};  // token id is bytes [ends[id], ends[id + 1])
  std::vector<uint8_t> types;
  std::unordered_map<std::string_view, int32_t> by_bytes;  // views into `bytes`
  std::array<int32_t, 256> byte_ids{};
  MergeTable table;
  PreTokenizer pre_tokenizer;
  SpecialTrie raw_specials, normalized_specials;
  bool nfc = false;
  std::vector<int32_t> eos;
};

Status Tokenizer::Impl::load_tokens(const Vocabulary& vocabulary) {
  byte_ids.fill(-1);
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const VocabularyToken& token = vocabulary.tokens[id];
    types.push_back(static_cast<uint8_t>(token.type));
    if (token.type == kTokenNormal) {
      const auto decoded = bytes_from_alphabet(token.text);
      if (!decoded) {
        return Error{Code::bad_file, cat("token ", id, " ", detail::quote(token.text),
                                         " has a character outside the GPT-2 byte alphabet")};
      }
      if (decoded->size() == 1) byte_ids[static_cast<uint8_t>((*decoded)[0])] = static_cast<int32_t>(id);
      bytes.append(*decoded);
    } else if (token.type == kTokenByte) {
      const auto byte = byte_token(token.text);
      if (!byte) {
        return Error{Code::bad_file,
                     cat("byte token ", id, " is ", detail::quote(token.text), "; wanted is \"<0xHH>\"")};
      }
      bytes.push_back(*byte);
    } else if (token.type != kTokenUnused) {
      bytes.append(token.text);
      SpecialTrie& specials = token.normalized ? normalized_specials : raw_specials;
      specials.add(token.normalized && nfc ? to_nfc(token.text) : token.text, static_cast<int32_t>(id));
    }
    ends.push_back(bytes.size());
  }
  for (size_t b = 0; b < byte_ids.size(); ++b) {
    if (byte_ids[b] < 0) return Error{Code::bad_file, cat("the vocabulary has no token for the byte ", b)};
  }
  by_bytes.reserve(types.size());
  for (const bool added : {true, false}) {
    for (size_t id = 0; id < types.size(); ++id) {
      const bool is_added = types[id] == kTokenControl || types[id] == kTokenUserDefined;
      if (is_added == added && types[id] != kTokenUnused) {
        by_bytes.emplace(bytes_of(static_cast<int64_t>(id)), static_cast<int32_t>(id));
      }
    }
  }
  return {};
}

Status Tokenizer::Impl::load_merges(const Vocabulary& vocabulary, std::string_view where) {
  // Without merges text would become single bytes, of which the model knows nothing.
  for (size_t id = 0; vocabulary.merges.empty() && id < types.size(); ++id) {
    if (types[id] != kTokenNormal || bytes_of(static_cast<int64_t>(id)).size() < 2) continue;
    return Error{Code::bad_file, cat(where, " is missing or empty; wanted the merges that make the token ", id, ' ',
                                     detail::quote(vocabulary.tokens[id].text), " and others of more than one byte")};
  }
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const Merge& merge = vocabulary.merges[i];
    if (!table.add(merge.left, merge.right, merge.result)) {
      return Error{Code::bad_file,
                   cat("merge ", i, " of the tokens ", merge.left, " and ", merge.right, " appears a second time")};
    }
  }
  return {};
}

Status Tokenizer::Impl::load_eos(const std::vector<int64_t>& ids) {
  for (const int64_t id : ids) {
    if (id < 0 || static_cast<uint64_t>(id) >= types.size()) {
      return Error{Code::bad_file,
                   cat("the end-of-text id ", id, " is outside the vocabulary of ", types.size(), " tokens")};
    }
    if (std::find(eos.begin(), eos.end(), static_cast<int32_t>(id)) == eos.end())
      eos.push_back(static_cast<int32_t>(id));
  }
  return {};
}

Result<Tokenizer> Tokenizer::create(const TokenizerSpec& spec) {
  if (spec.tokenizer_json.empty() && spec.model.empty() && spec.tokens.empty()) {
    return Error{Code::not_found, "the model brings no tokenizer: neither tokenizer.json nor tokenizer.ggml.* keys"};
  }
  EVROS_ASSIGN(const Vocabulary vocabulary,
               spec.tokenizer_json.empty() ? vocabulary_from_arrays(spec) : vocabulary_from_json(spec.tokenizer_json));
  auto impl = std::make_shared<Impl>(vocabulary.merges.size());
  impl->nfc = spec.nfc.value_or(vocabulary.nfc);
  EVROS_ASSIGN(impl->pre_tokenizer, PreTokenizer::create(vocabulary.pattern));
  EVROS_TRY(impl->load_tokens(vocabulary));
  EVROS_TRY(impl->load_merges(vocabulary, spec.tokenizer_json.empty() ? "tokenizer.ggml.merges" : "model.merges"));
  EVROS_TRY(impl->load_eos(spec.eos_ids));
  Tokenizer tokenizer;
  tokenizer.impl_ = std::move(impl);
  return tokenizer;
}

Status Tokenizer::Impl::encode_pieces(std::string_view text, std::vector<int32_t>& out) const {
  std::vector<size_t> piece_ends;
  EVROS_TRY(pre_tokenizer.split(text, piece_ends));
  std::vector<int32_t> symbols;
  size_t begin = 0;
  for (const size_t end : piece_ends) {
    symbols.clear();
    for (size_t i = begin; i < end; ++i) symbols.push_back(byte_ids[static_cast<uint8_t>(text[i])]);
    table.merge(symbols, out);
    begin = end;
  }
  return {};
}

/// `text` is normalised; tokens that are looked for there come first.
Status Tokenizer::Impl::encode_normalized(std::string_view text, bool parse, std::vector<int32_t>& out) const {
  if (!parse || normalized_specials.empty()) return encode_pieces(text, out);
  for (size_t at = 0; at < text.size();) {
    const auto match = normalized_specials.find(text, at);
    if (match.begin > at) EVROS_TRY(encode_pieces(text.substr(at, match.begin - at), out));
    if (match.id >= 0) out.push_back(match.id);
    at = match.end;
  }
  return {};
}

/// `text` holds no raw added token, or they count as text.
Status Tokenizer::Impl::encode_plain(std::string_view text, bool parse, std::vector<int32_t>& out) const {
  return nfc ? encode_normalized(to_nfc(text), parse, out) : encode_normalized(text, parse, out);
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  if (text.size() > kMaxTextBytes) {
    return Error{Code::invalid_argument,
                 cat("the text has ", text.size(), " bytes; at most ", kMaxTextBytes, " are possible")};
  }
  if (const auto wrong = find_invalid_utf8(text)) {
    return Error{Code::invalid_argument, cat("the text is not valid UTF-8 at byte ", *wrong)};
  }
  const bool parse = special != SpecialTokens::plain;
  std::vector<int32_t> out;
  for (size_t at = 0; at < text.size();) {
    const SpecialTrie::Match match =
        parse ? impl_->raw_specials.find(text, at) : SpecialTrie::Match{text.size(), text.size(), -1};
    if (match.begin > at) {
      const std::string_view plain = text.substr(at, match.begin - at);
      const bool marked = special == SpecialTokens::parse_trusted && plain.find(kMark) != std::string_view::npos;
      // Marks go after the search for added tokens; a token in the normalised text must not appear by their removal either.
      EVROS_TRY(marked ? impl_->encode_plain(replace_all(plain, kMark, ""), false, out)
                       : impl_->encode_plain(plain, parse, out));
    }
    if (match.id >= 0) out.push_back(match.id);
    at = match.end;
  }
  return out;
}

std::string Tokenizer::defuse(std::string_view text) const {
  std::string clean;
  if (text.find(kMark) != std::string_view::npos) {
    clean = replace_all(text, kMark, kReplacement);
    text = clean;
  }
  std::string out;
  const auto marked_first = [&](std::string_view token) {
    const size_t first = utf8_step(token).bytes;  // the mark goes behind the first character
    out.append(token.substr(0, first));
    out.append(kMark);
  };
  for (size_t at = 0; at < text.size();) {
    const auto raw = impl_->raw_specials.find(text, at);
    const auto normalized = impl_->normalized_specials.find(text, at);
    const auto& match = raw.begin <= normalized.begin ? raw : normalized;
    out.append(text.substr(at, match.begin - at));
    if (match.id < 0) break;
    marked_first(text.substr(match.begin));
    at =
        match.begin + utf8_step(text.substr(match.begin)).bytes;  // tokens inside or across this one are marked as well
  }
  return out;
}

Result<std::string> Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string out;
  Utf8Decoder decoder;
  for (const int32_t id : ids) {
    if (!contains(id)) {
      return Error{Code::invalid_argument,
                   cat("token id ", id, " is outside the vocabulary of ", vocab_size(), " tokens")};
    }
    if (!(skip_special && is_control(id))) decoder.push(impl_->bytes_of(id), out);
  }
  decoder.flush(out);
  return out;
}

std::string_view Tokenizer::token_bytes(int64_t id) const {
  return contains(id) ? impl_->bytes_of(id) : std::string_view{};
}

bool Tokenizer::is_control(int64_t id) const {
  return contains(id) && impl_->types[static_cast<size_t>(id)] == kTokenControl;
}

bool Tokenizer::is_unused(int64_t id) const {
  return contains(id) && impl_->types[static_cast<size_t>(id)] == kTokenUnused;
}

std::optional<int32_t> Tokenizer::find(std::string_view text) const {
  const auto at = impl_->by_bytes.find(text);
  return at == impl_->by_bytes.end() ? std::nullopt : std::optional<int32_t>(at->second);
}

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(impl_->types.size()); }
const std::vector<int32_t>& Tokenizer::eos_ids() const { return impl_->eos; }
bool Tokenizer::is_eos(int64_t id) const {
  return contains(id) && std::find(impl_->eos.begin(), impl_->eos.end(), static_cast<int32_t>(id)) != impl_->eos.end();
}

}  // namespace evros::text
