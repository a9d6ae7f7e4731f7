// A GGUF file or split set as a model.
#include <algorithm>
#include <cmath>

#include "base/json_writer.h"
#include "base/str.h"
#include "format/expected_tensors.h"
#include "format/gguf.h"
#include "format/gguf_hyper.h"
#include "format/message.h"
#include "format/stored_model.h"

namespace evros::format {
namespace {

std::string text_of(const GgufMetadata& metadata, std::string_view key) {
  const GgufValue* value = metadata.find(key);
  const std::string* text = value == nullptr ? nullptr : value->text();
  return text == nullptr ? std::string() : *text;
}

std::string json_of_element(const GgufValue& value, uint64_t i) {
  if (const auto* texts = value.texts()) return json_quote((*texts)[i]);
  if (value.type() == GgufType::boolean) return value.flag(i) ? "true" : "false";
  if (const auto number = value.integer(i)) return cat(*number);
  if (const auto number = value.unsigned_integer(i)) return cat(*number);
  const double number = value.number(i).value_or(NAN);
  if (!std::isfinite(number)) return "null";
  return value.type() == GgufType::f32 ? cat(static_cast<float>(number)) : cat(number);
}

std::string json_of(const GgufValue& value) {
  if (const std::string* text = value.text()) return json_quote(*text);
  if (!value.is_array()) return json_of_element(value, 0);
  return json_list(value.size(), [&](uint64_t i) { return json_of_element(value, i); });
}

/// A token id: -1 when absent or not an integer of the vocabulary.
int64_t token_of(const GgufMetadata& metadata, std::string_view key, int64_t vocab) {
  const GgufValue* value = metadata.find(key);
  const auto id = value == nullptr || value->is_array() ? std::nullopt : value->integer();
  return id && *id >= 0 && *id < vocab ? *id : -1;
}

/// Takes ids of one key over into the ends of a reply; the first that cannot be one is said in `text.wrong_end`.
void add_ends(TextAssets& text, const GgufMetadata& metadata, const char* key, bool list, int64_t vocab,
              const std::string& path) {
  const GgufValue* value = metadata.find(key);
  if (value == nullptr) return;
  bool known = value->is_array() == list;
  for (uint64_t i = 0; known && i < value->size(); ++i) {
    const auto id = value->integer(i);
    known = id && *id >= 0 && *id < vocab;
    if (known && std::find(text.eos_ids.begin(), text.eos_ids.end(), *id) == text.eos_ids.end())
      text.eos_ids.push_back(*id);
  }
  if (known || !text.wrong_end.empty()) return;
  text.wrong_end = cat(path, ": key ", key, " is ", value->short_text(), "; wanted ",
                       list ? "an array of token ids" : "a token id", " from 0 to ", vocab - 1);
}

void add_reply_ends(TextAssets& text, const GgufMetadata& metadata, int64_t vocab, const std::string& path) {
  add_ends(text, metadata, "evros.eos_token_ids", true, vocab, path);
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"})
    add_ends(text, metadata, key, false, vocab, path);
}

/// The tokenizer's arrays. What they mean is the text folder's business; only their lengths are checked here.
Result<TextAssets> text_assets(const GgufMetadata& metadata, int64_t vocab, const std::string& path) {
  TextAssets text;
  text.tokenizer_json = text_of(metadata, "tokenizer.huggingface.json");
  text.pre = text_of(metadata, "tokenizer.ggml.pre");
  text.model = text_of(metadata, "tokenizer.ggml.model");
  text.chat_template = text_of(metadata, "tokenizer.chat_template");
  add_reply_ends(text, metadata, vocab, path);
  text.bos_id = token_of(metadata, "tokenizer.ggml.bos_token_id", vocab);
  text.pad_id = token_of(metadata, "tokenizer.ggml.padding_token_id", vocab);
  if (const GgufValue* nfc = metadata.find("evros.tokenizer.nfc")) text.nfc = nfc->truth();
  const auto strings = [&](const char* key, std::vector<std::string>& out) -> Status {
    const GgufValue* value = metadata.find(key);
    if (value == nullptr) return {};
    if (value->texts() == nullptr)
      return Error{Code::bad_file, cat(path, ": key ", key, " is ", value->type_text(), "; wanted arr[str]")};
    out = *value->texts();
    return {};
  };
  EVROS_TRY(strings("tokenizer.ggml.tokens", text.tokens));
  EVROS_TRY(strings("tokenizer.ggml.merges", text.merges));
  if (text.tokens.size() > static_cast<size_t>(vocab)) {
    return Error{Code::bad_file, cat(path, ": key tokenizer.ggml.tokens has ", text.tokens.size(),
                                     " entries; wanted at most ", vocab, ", the rows of token_embd.weight")};
  }
  if (const GgufValue* types = metadata.find("tokenizer.ggml.token_type")) {
    for (uint64_t i = 0; i < types->size(); ++i) {
      const auto type = types->is_array() ? types->integer(i) : std::nullopt;
      if (!type)
        return Error{Code::bad_file, cat(path, ": key tokenizer.ggml.token_type is ", types->short_text(),
                                         "; wanted an array of integers")};
      text.token_types.push_back(static_cast<int32_t>(*type));
    }
    if (text.token_types.size() != text.tokens.size()) {
      return Error{Code::bad_file, cat(path, ": key tokenizer.ggml.token_type has ", text.token_types.size(),
                                       " entries; wanted ", text.tokens.size(), ", one for each token")};
    }
  }
  return text;
}

SamplingDefaults sampling_of(const GgufMetadata& metadata) {
  const auto number = [&](const char* key) -> std::optional<double> {
    const GgufValue* value = metadata.find(key);
    return value == nullptr || value->is_array() ? std::nullopt : value->number();
  };
  SamplingDefaults sampling;
  if (const auto v = number("general.sampling.temp")) sampling.temperature = static_cast<float>(*v);
  if (const auto v = number("general.sampling.top_p")) sampling.top_p = static_cast<float>(*v);
  if (const auto v = number("general.sampling.top_k"); v && *v >= 0 && *v < 1e9)
    sampling.top_k = static_cast<int32_t>(*v);
  return sampling;
}

Tensor whole(const GgufTensor& stored) {
  Tensor tensor;
  tensor.name = stored.name;
  tensor.stored_name = stored.name;
  tensor.type = stored.type;
  tensor.ne = stored.ne;
  tensor.dims = stored.dims;
  tensor.pieces = {{stored.file, stored.offset, stored.bytes}};
  return tensor;
}

/// Half of blk.N.ffn_gate_up_exps.weight, which holds the gate's rows, then the up rows, expert by expert.
Tensor half_of_fused(const GgufTensor& stored, std::string name, uint64_t half, bool placed) {
  Tensor tensor = whole(stored);
  tensor.name = std::move(name);
  tensor.ne[1] /= 2;
  tensor.pieces.clear();
  if (!placed) return tensor;
  const uint64_t bytes = tensor.ne[1] * row_bytes(tensor.type, tensor.ne[0]);
  for (uint64_t expert = 0; expert < tensor.ne[2]; ++expert) {
    append_piece(tensor.pieces, {stored.file, stored.offset + (2 * expert + half) * bytes, bytes});
  }
  return tensor;
}

/// Vision tensors are not Evros' business yet and change nothing for text.
bool is_vision(std::string_view name) { return name.starts_with("v.") || name.starts_with("mm."); }

/// A fused expert tensor larger than this many experts is refused by shape before it becomes pieces.
constexpr uint64_t kMaxExperts = 1 << 16;

/// `placed`: the header's types are known, so that pieces are. Otherwise names, shapes and known types alone mean something.
std::vector<Tensor> canonical_tensors(const GgufSet& set, bool placed) {
  static constexpr std::string_view kFused = "ffn_gate_up_exps.weight";
  std::vector<Tensor> tensors;
  for (const GgufTensor& stored : set.tensors) {
    if (is_vision(stored.name)) continue;
    if (stored.name.ends_with(kFused) && stored.ne[1] % 2 == 0 && stored.ne[2] <= kMaxExperts && stored.ne[3] == 1) {
      const std::string block = stored.name.substr(0, stored.name.size() - kFused.size());
      tensors.push_back(half_of_fused(stored, block + "ffn_gate_exps.weight", 0, placed));
      tensors.push_back(half_of_fused(stored, block + "ffn_up_exps.weight", 1, placed));
    } else {
      tensors.push_back(whole(stored));
    }
  }
  return tensors;
}

/// Of a file with unknown types: everything that is wrong with its tensors, in one error.
Error all_problems(const GgufSet& set, const ModelParts& parts, const std::string& path) {
  Problems problems;
  for (const GgufTensor& tensor : set.tensors) {
    if (tensor.unknown_type) problems.add_unknown_type(tensor.name, *tensor.unknown_type);
  }
  // A tensor of unknown type is a float to the check, so that nothing more is said of its type.
  const Status status = check_tensors(parts.hyper, parts.tensors, path, std::move(problems));
  CHECK(!status.ok());
  return Error{Code::unsupported, status.error().message};
}

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

}  // namespace

Result<ModelParts> open_gguf_model(io::Io& io, const std::string& path) {
  EVROS_ASSIGN(GgufSet set, open_gguf_set(io, path));
  ModelParts parts;
  parts.path = path;
  parts.container = cat("GGUF v", set.version);
  parts.name = text_of(set.metadata, "general.name");
  if (parts.name.empty()) parts.name = base_name(path);
  const Status known = check_known_types(set, path);
  auto hyper = hyper_from_gguf(set.metadata, set.tensors, set.files[0]->path());
  if (!hyper.ok()) return known.ok() ? hyper.error() : known.error();
  parts.hyper = std::move(*hyper);
  parts.tensors = canonical_tensors(set, known.ok());
  if (!known.ok()) return all_problems(set, parts, path);
  EVROS_TRY(check_tensors(parts.hyper, parts.tensors, path));
  EVROS_ASSIGN(parts.text, text_assets(set.metadata, parts.hyper.vocab, path));
  parts.sampling = sampling_of(set.metadata);
  for (const auto& [key, value] : set.metadata.entries())
    parts.metadata.push_back({key, value.type_text(), value.short_text(), json_of(value)});
  parts.files = std::move(set.files);
  return parts;
}

}  // namespace evros::format
