// A checkpoint folder as a model: config.json, *.safetensors, and beside them what the tokenizer needs.
#include <algorithm>

#include "base/json_writer.h"
#include "base/str.h"
#include "format/canonical.h"
#include "format/config_json.h"
#include "format/expected_tensors.h"
#include "format/json.h"
#include "format/message.h"
#include "format/stored_model.h"

namespace evros::format {
namespace {

constexpr uint64_t kMaxConfigBytes = uint64_t{16} << 20;
constexpr uint64_t kMaxTokenizerBytes = uint64_t{256} << 20;

/// The file's text, or nothing when there is no such file.
Result<std::string> read_if_there(io::Io& io, const std::string& path, uint64_t limit) {
  if (!io.exists(path)) return std::string();
  return io::read_file(io, path, limit);
}

/// The template from its own file or, in older folders, from tokenizer_config.json.
Result<std::string> chat_template(io::Io& io, const std::string& folder) {
  EVROS_ASSIGN(std::string text, read_if_there(io, io::join(folder, "chat_template.jinja"), kMaxConfigBytes));
  if (!text.empty()) return text;
  const std::string path = io::join(folder, "tokenizer_config.json");
  EVROS_ASSIGN(const std::string config, read_if_there(io, path, kMaxConfigBytes));
  if (config.empty()) return std::string();
  EVROS_ASSIGN(const boost::json::object object, parse_json_object(config, path));
  const boost::json::value* value = object.if_contains("chat_template");
  if (value == nullptr || !value->is_string()) return std::string();
  return std::string(value->get_string().data(), value->get_string().size());
}

void add_ends(TextAssets& text, const std::vector<int64_t>& more, int64_t vocab, const std::string& path) {
  for (const int64_t id : more) {
    if (id < 0 || id >= vocab) {
      if (text.wrong_end.empty())
        text.wrong_end = cat(path, ": key eos_token_id is or holds ", id, "; wanted token ids from 0 to ", vocab - 1);
    } else if (std::find(text.eos_ids.begin(), text.eos_ids.end(), id) == text.eos_ids.end()) {
      text.eos_ids.push_back(id);
    }
  }
}

Status read_text(io::Io& io, const std::string& folder, const ModelConfig& config, ModelParts& parts) {
  const std::string path = io::join(folder, "generation_config.json");
  EVROS_ASSIGN(const std::string generation, read_if_there(io, path, kMaxConfigBytes));
  const int64_t vocab = parts.hyper.vocab;
  if (!generation.empty()) {
    EVROS_ASSIGN(const GenerationConfig g, parse_generation_config(generation, path));
    add_ends(parts.text, g.eos_ids, vocab, path);
    parts.sampling = g.sampling;
  }
  add_ends(parts.text, config.eos_ids, vocab, io::join(folder, "config.json"));
  parts.text.bos_id = config.bos_id < vocab ? config.bos_id : -1;
  parts.text.pad_id = config.pad_id < vocab ? config.pad_id : -1;
  EVROS_ASSIGN(parts.text.tokenizer_json, read_if_there(io, io::join(folder, "tokenizer.json"), kMaxTokenizerBytes));
  EVROS_ASSIGN(parts.text.chat_template, chat_template(io, folder));
  return {};
}

/// The keys of config.json, with those of text_config last, for people.
Result<std::vector<MetadataEntry>> metadata_of(const std::string& text, const std::string& path) {
  EVROS_ASSIGN(const boost::json::object top, parse_json_object(text, path));
  std::vector<MetadataEntry> entries;
  const auto add = [&](const boost::json::object& object, const std::string& prefix) {
    for (const auto& [key, value] : object) {
      const auto kind = boost::json::to_string(value.kind());
      // A name of its own: Clang 14 does not let a lambda have one of a binding's.
      const auto element = [&array = value](uint64_t i) { return boost::json::serialize(array.get_array()[i]); };
      entries.push_back(
          {prefix + std::string(key.data(), key.size()), std::string(kind.data(), kind.size()), json_short(value),
           value.is_array() ? json_list(value.get_array().size(), element) : boost::json::serialize(value)});
    }
  };
  add(top, "");
  const boost::json::value* nested = top.if_contains("text_config");
  if (nested != nullptr && nested->is_object()) add(nested->get_object(), "text_config.");
  return entries;
}

std::string folder_name(std::string_view folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.remove_suffix(1);
  return std::string(folder.substr(folder.find_last_of('/') + 1));
}

}  // namespace

Result<ModelParts> open_safetensors_model(io::Io& io, const std::string& folder) {
  const std::string config_path = io::join(folder, "config.json");
  if (!io.exists(config_path))
    return Error{Code::not_found,
                 cat(folder, ": has no config.json; wanted a folder with config.json and *.safetensors")};
  EVROS_ASSIGN(const std::string config_text, io::read_file(io, config_path, kMaxConfigBytes));
  EVROS_ASSIGN(ModelConfig config, parse_config(config_text, config_path));
  EVROS_ASSIGN(SafeTensors stored, open_safetensors_folder(io, folder));
  EVROS_TRY(complete_hyper(stored, config, folder));
  EVROS_TRY(validate(config.hyper, config_path, KeyStyle::config));
  ModelParts parts;
  parts.path = folder;
  parts.container = "safetensors";
  parts.name = folder_name(folder);
  parts.hyper = config.hyper;
  EVROS_ASSIGN(parts.tensors, canonical_tensors(stored, parts.hyper, folder));
  EVROS_TRY(check_tensors(parts.hyper, parts.tensors, folder));
  EVROS_TRY(read_text(io, folder, config, parts));
  EVROS_ASSIGN(parts.metadata, metadata_of(config_text, config_path));
  parts.files = std::move(stored.files);
  return parts;
}

}  // namespace evros::format
