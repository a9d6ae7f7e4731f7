// The ModelFile behind both containers: open files, tensors as pieces of them, and the one read() that follows the
// pieces. Private to format: readers fill a StoredModel, users see a ModelFile.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "format/model_file.h"

namespace evros::format {

/// What a reader found. Every piece lies inside its file and the pieces of a tensor add up to its bytes.
struct ModelParts {
  std::string path, container, name;
  HyperParams hyper;
  std::vector<Tensor> tensors;
  TextAssets text;
  SamplingDefaults sampling;
  std::vector<MetadataEntry> metadata;
  std::vector<std::unique_ptr<io::File>> files;
};

/// Takes over the parts; CHECKs the rules of ModelParts.
std::unique_ptr<ModelFile> make_model(ModelParts parts);

/// The readers behind open_model.
Result<ModelParts> open_gguf_model(io::Io& io, const std::string& path);
Result<ModelParts> open_safetensors_model(io::Io& io, const std::string& folder);

/// An array as MetadataEntry::json has it; element(i) is JSON.
std::string json_list(uint64_t count, const std::function<std::string(uint64_t i)>& element);

/// Appends a piece, joined to the last one when it continues it.
void append_piece(std::vector<Piece>& pieces, Piece piece);

}  // namespace evros::format
