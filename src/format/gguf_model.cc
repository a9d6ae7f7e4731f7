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

std::string json_of(const GgufValue& value) {
  if (const std::string* text = value.text()) return json_quote(*text);
  if (value.is_array()) return json_quote(value.short_text());
  const auto number = value.number();
  return number && !std::isfinite(*number) ? "null" : value.short_text();
}

/// A token id: -1 when absent or not an integer of the vocabulary.
int64_t token_of(const GgufMetadata& metadata, std::string_view key, int64_t vocab) {
  const GgufValue* value = metadata.find(key);
  const auto id = value == nullptr || value->is_array() ? std::nullopt : value->integer();
  return id && *id >= 0 && *id < vocab ? *id : -1;
}

void add_unique(std::vector<int64_t>& ids, int64_t id) {
  if (id >= 0 && std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
}

std::vector<int64_t> reply_ends(const GgufMetadata& metadata, int64_t vocab) {
  std::vector<int64_t> ids;
  if (const GgufValue* listed = metadata.find("evros.eos_token_ids"); listed != nullptr && listed->is_array()) {
    for (uint64_t i = 0; i < listed->size(); ++i) {
      const int64_t id = listed->integer(i).value_or(-1);
      add_unique(ids, id < vocab ? id : -1);
    }
  }
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    add_unique(ids, token_of(metadata, key, vocab));
  }
  return ids;
}

/// The tokenizer's arrays. What they mean is the text folder's business; only their lengths are checked here.
Result<TextAssets> text_assets(const GgufMetadata& metadata, int64_t vocab, const std::string& path) {
  TextAssets text;
  text.tokenizer_json = text_of(metadata, "tokenizer.huggingface.json");
  text.pre = text_of(metadata, "tokenizer.ggml.pre");
  text.model = text_of(metadata, "tokenizer.ggml.model");
  text.chat_template = text_of(metadata, "tokenizer.chat_template");
  text.eos_ids = reply_ends(metadata, vocab);
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
Tensor half_of_fused(const GgufTensor& stored, std::string name, uint64_t half) {
  Tensor tensor = whole(stored);
  tensor.name = std::move(name);
  tensor.ne[1] /= 2;
  tensor.pieces.clear();
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

std::vector<Tensor> canonical_tensors(const GgufSet& set) {
  static constexpr std::string_view kFused = "ffn_gate_up_exps.weight";
  std::vector<Tensor> tensors;
  for (const GgufTensor& stored : set.tensors) {
    if (is_vision(stored.name)) continue;
    if (stored.name.ends_with(kFused) && stored.ne[1] % 2 == 0 && stored.ne[2] <= kMaxExperts && stored.ne[3] == 1) {
      const std::string block = stored.name.substr(0, stored.name.size() - kFused.size());
      tensors.push_back(half_of_fused(stored, block + "ffn_gate_exps.weight", 0));
      tensors.push_back(half_of_fused(stored, block + "ffn_up_exps.weight", 1));
    } else {
      tensors.push_back(whole(stored));
    }
  }
  return tensors;
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
  EVROS_ASSIGN(parts.hyper, hyper_from_gguf(set.metadata, set.tensors, set.files[0]->path()));
  parts.tensors = canonical_tensors(set);
  EVROS_TRY(check_tensors(parts.hyper, parts.tensors, path));
  EVROS_ASSIGN(parts.text, text_assets(set.metadata, parts.hyper.vocab, path));
  parts.sampling = sampling_of(set.metadata);
  for (const auto& [key, value] : set.metadata.entries())
    parts.metadata.push_back({key, value.type_text(), value.short_text(), json_of(value)});
  parts.files = std::move(set.files);
  return parts;
}

}  // namespace evros::format
