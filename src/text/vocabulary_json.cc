// tokenizer.json -> Vocabulary. Reads only what decides ids; refuses what it would have to ignore.
#include <boost/json.hpp>

#include "base/str.h"
#include "text/vocabulary.h"

namespace evros::text {
namespace {

namespace json = boost::json;
using detail::quote;

constexpr std::string_view kFile = "tokenizer.json";

std::string_view view(const json::string& s) { return {s.data(), s.size()}; }

Error bad(std::string_view what) { return {Code::bad_file, cat(kFile, ": ", what)}; }
Error unsupported(std::string_view what) { return {Code::unsupported, cat(kFile, ": ", what)}; }

/// The member, or null when the object lacks it or it is null.
const json::value* member(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value && !value->is_null() ? value : nullptr;
}

std::string short_json(const json::value& value) {
  if (value.is_string()) return quote(view(value.get_string()));
  if (value.is_object()) return cat("an object of ", value.get_object().size(), " members");
  if (value.is_array()) return cat("an array of ", value.get_array().size(), " elements");
  return json::serialize(value);
}

Result<const json::object*> object_member(const json::object& object, std::string_view key) {
  const json::value* value = member(object, key);
  if (!value) return bad(cat(key, " is missing"));
  if (!value->is_object()) return bad(cat(key, " is ", short_json(*value), "; wanted is an object"));
  return &value->get_object();
}

std::string_view type_of(const json::value& value) {
  if (!value.is_object()) return {};
  const json::value* type = member(value.get_object(), "type");
  return type && type->is_string() ? view(type->get_string()) : std::string_view{};
}

/// A switch: absent and null mean `otherwise`; something that is no boolean counts as the opposite, which callers refuse.
bool flag(const json::object& object, std::string_view key, bool otherwise) {
  const json::value* value = member(object, key);
  if (!value) return otherwise;
  return value->is_bool() ? value->get_bool() : !otherwise;
}

/// Options of the BPE model that would change ids.
Status check_model_options(const json::object& model) {
  const json::value* type = member(model, "type");
  if (type && (!type->is_string() || view(type->get_string()) != "BPE")) {
    return unsupported(cat("model.type is ", short_json(*type), "; known is \"BPE\""));
  }
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const json::value* value = member(model, key);
    if (value && !(value->is_string() && value->get_string().empty())) {
      return unsupported(cat("model.", key, " is ", short_json(*value), "; only an empty one is supported"));
    }
  }
  for (const std::string_view key : {"byte_fallback", "ignore_merges"}) {
    if (flag(model, key, false)) return unsupported(cat("model.", key, " is set; only false is supported"));
  }
  const json::value* dropout = member(model, "dropout");
  if (dropout && !(dropout->is_number() && dropout->to_number<double>() == 0.0)) {
    return unsupported(cat("model.dropout is ", short_json(*dropout), "; only null is supported"));
  }
  return {};
}

Result<bool> read_normalizer(const json::object& root) {
  const json::value* value = member(root, "normalizer");
  if (!value) return false;
  if (type_of(*value) == "NFC") return true;
  if (type_of(*value) == "Sequence") {
    const json::value* list = member(value->get_object(), "normalizers");
    if (list && list->is_array() && list->get_array().empty()) return false;
    if (list && list->is_array() && list->get_array().size() == 1 && type_of(list->get_array()[0]) == "NFC")
      return true;
    return unsupported("normalizer is a Sequence; supported is one of NFC alone");
  }
  return unsupported(cat("normalizer.type is ", quote(type_of(*value)), "; known are null and \"NFC\""));
}

/// The regular expression of a Split that keeps matches as pieces of their own.
Result<std::string> read_split(const json::object& split) {
  const json::value* behavior = member(split, "behavior");
  if (!behavior || !behavior->is_string() || behavior->get_string() != "Isolated" || flag(split, "invert", false)) {
    return unsupported("the pre_tokenizer's Split is not \"Isolated\" and uninverted, the only supported form");
  }
  EVROS_ASSIGN(const json::object* pattern, object_member(split, "pattern"));
  const json::value* regex = member(*pattern, "Regex");
  if (!regex || !regex->is_string()) return unsupported("the pre_tokenizer's Split has no Regex pattern");
  if (regex->get_string().empty()) return bad("the pre_tokenizer's Split has an empty Regex");
  return std::string(view(regex->get_string()));
}

Result<std::string> read_pre_tokenizer(const json::object& root) {
  static constexpr std::string_view kWanted =
      "; supported is a Sequence of Split and ByteLevel (use_regex false), or ByteLevel alone";
  const json::value* value = member(root, "pre_tokenizer");
  if (!value) return unsupported(cat("pre_tokenizer is missing", kWanted));
  const auto plain_byte_level = [](const json::value& part, bool regex) {
    return type_of(part) == "ByteLevel" && !flag(part.get_object(), "add_prefix_space", true) &&
           flag(part.get_object(), "use_regex", true) == regex;
  };
  if (plain_byte_level(*value, true)) return std::string(kGpt2Pattern);
  if (type_of(*value) != "Sequence") {
    return unsupported(cat("pre_tokenizer.type is ", quote(type_of(*value)), kWanted));
  }
  const json::value* list = member(value->get_object(), "pretokenizers");
  if (!list || !list->is_array() || list->get_array().size() != 2 || type_of(list->get_array()[0]) != "Split" ||
      !plain_byte_level(list->get_array()[1], false)) {
    return unsupported(cat("pre_tokenizer is another Sequence", kWanted));
  }
  return read_split(list->get_array()[0].get_object());
}

Status check_ends(const json::object& root) {
  const json::value* decoder = member(root, "decoder");
  if (!decoder || type_of(*decoder) != "ByteLevel") {
    return unsupported(
        cat("decoder.type is ", quote(decoder ? type_of(*decoder) : "null"), "; known is \"ByteLevel\""));
  }
  const json::value* post = member(root, "post_processor");
  if (post && type_of(*post) != "ByteLevel") {
    return unsupported(cat("post_processor.type is ", quote(type_of(*post)), "; known are null and \"ByteLevel\""));
  }
  return {};
}

/// Puts a token in its place, growing the vocabulary. `limit` bounds the ids: with more, some id below has no token.
Status place(Vocabulary& vocabulary, const json::value& id_value, std::string_view text, TokenType type, size_t limit) {
  if (!id_value.is_int64() || id_value.get_int64() < 0 || static_cast<uint64_t>(id_value.get_int64()) >= limit) {
    return bad(cat("token ", quote(text), " has the id ", short_json(id_value), "; wanted is a whole number from 0 to ",
                   limit == 0 ? 0 : limit - 1, ", because the file lists ", limit, " tokens"));
  }
  const auto id = static_cast<size_t>(id_value.get_int64());
  if (id >= vocabulary.tokens.size()) vocabulary.tokens.resize(id + 1);
  VocabularyToken& token = vocabulary.tokens[id];
  if (token.type != kTokenUnused && token.text != text) {
    return bad(cat("tokens ", quote(token.text), " and ", quote(text), " both have the id ", id));
  }
  token.text = text;
  token.type = type;
  return {};
}

Status read_added_token(Vocabulary& vocabulary, const json::value& value, size_t number, size_t limit) {
  const auto here = cat("added_tokens[", number, "]");
  if (!value.is_object()) return bad(cat(here, " is ", short_json(value), "; wanted is an object"));
  const json::object& token = value.get_object();
  const json::value* content = member(token, "content");
  const json::value* id = member(token, "id");
  if (!content || !content->is_string() || content->get_string().empty()) return bad(cat(here, " has no content"));
  if (!id) return bad(cat(here, " has no id"));
  for (const std::string_view key : {"single_word", "lstrip", "rstrip"}) {
    if (flag(token, key, false)) {
      return unsupported(
          cat("added token ", quote(view(content->get_string())), " has ", key, " set; only false is supported"));
    }
  }
  const bool special = flag(token, "special", false);
  EVROS_TRY(place(vocabulary, *id, view(content->get_string()), special ? kTokenControl : kTokenUserDefined, limit));
  vocabulary.tokens[static_cast<size_t>(id->get_int64())].normalized = flag(token, "normalized", !special);
  return {};
}

Status read_tokens(Vocabulary& vocabulary, const json::object& root, const json::object& model) {
  EVROS_ASSIGN(const json::object* entries, object_member(model, "vocab"));
  const json::value* added = member(root, "added_tokens");
  if (added && !added->is_array()) return bad(cat("added_tokens is ", short_json(*added), "; wanted is an array"));
  const size_t limit = entries->size() + (added ? added->get_array().size() : 0);
  if (limit > size_t{INT32_MAX}) return bad(cat("the file lists ", limit, " tokens"));
  for (const auto& [key, id] : *entries) {
    EVROS_TRY(place(vocabulary, id, {key.data(), key.size()}, kTokenNormal, limit));
  }
  if (added) {
    size_t number = 0;
    for (const json::value& token : added->get_array()) {
      EVROS_TRY(read_added_token(vocabulary, token, number++, limit));
    }
  }
  if (vocabulary.tokens.empty()) return bad("model.vocab is empty");
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.tokens[id].type == kTokenUnused) {
      return bad(cat("id ", id, " has no token, but ids go up to ", vocabulary.tokens.size() - 1));
    }
  }
  return {};
}

Status read_merges(Vocabulary& vocabulary, const json::object& model) {
  const json::value* merges = member(model, "merges");
  if (!merges || !merges->is_array()) return bad("model.merges is missing or no array");
  EVROS_ASSIGN(const detail::TokenIndex index, detail::index_tokens(vocabulary.tokens, kFile));
  vocabulary.merges.reserve(merges->get_array().size());
  size_t number = 0;
  for (const json::value& merge : merges->get_array()) {
    if (merge.is_string()) {
      EVROS_TRY(detail::add_joined_merge(vocabulary, index, view(merge.get_string()), number, kFile));
    } else if (merge.is_array() && merge.get_array().size() == 2 && merge.get_array()[0].is_string() &&
               merge.get_array()[1].is_string()) {
      EVROS_TRY(detail::add_merge(vocabulary, index, view(merge.get_array()[0].get_string()),
                                  view(merge.get_array()[1].get_string()), number, kFile));
    } else {
      return bad(
          cat("model.merges[", number, "] is ", short_json(merge), "; wanted is \"left right\" or a pair of strings"));
    }
    ++number;
  }
  return {};
}

}  // namespace

Result<Vocabulary> vocabulary_from_json(std::string_view text) {
  json::error_code failure;
  json::monotonic_resource memory;
  json::stream_parser parser(&memory);
  const size_t parsed = parser.write_some(text.data(), text.size(), failure);
  if (!failure && !parser.done()) parser.finish(failure);
  if (failure) return bad(cat("not valid JSON at byte ", parsed, ": ", failure.message()));
  if (text.find_first_not_of(" \t\r\n", parsed) != std::string_view::npos)
    return bad(cat("text follows the JSON value at byte ", parsed));
  const json::value document = parser.release();
  if (!document.is_object()) return bad("the file is no JSON object");
  const json::object& root = document.get_object();
  Vocabulary vocabulary;
  EVROS_ASSIGN(const json::object* model, object_member(root, "model"));
  EVROS_TRY(check_model_options(*model));
  EVROS_TRY(check_ends(root));
  EVROS_ASSIGN(vocabulary.nfc, read_normalizer(root));
  EVROS_ASSIGN(vocabulary.pattern, read_pre_tokenizer(root));
  EVROS_TRY(read_tokens(vocabulary, root, *model));
  EVROS_TRY(read_merges(vocabulary, *model));
  return vocabulary;
}

}  // namespace evros::text
