// The safetensors container: one file, or a folder of shards. Layout: u64 header length, a JSON object of
// name -> {dtype, shape, data_offsets}, then the data; an optional "__metadata__" object of strings.
//
// Nothing is trusted: the header fits the file and 100 MB, offsets lie inside the data and do not overlap, shape times
// element size is the length, names are unique over all shards. Errors are Code::bad_file and name file and tensor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "format/tensor_type.h"
#include "io/io.h"

namespace evros::format {

/// Bytes of one element; 0 for a dtype that is unknown or has no whole number of bytes.
uint64_t safetensors_element_bytes(std::string_view dtype);

struct SafeTensor {
  std::string name;
  std::string dtype;            // as the file spells it: "BF16", "F8_E4M3"
  std::vector<uint64_t> shape;  // outermost first, as in the file
  uint32_t file = 0;            // index in SafeTensors::files
  uint64_t offset = 0;          // in that file, from its first byte
  uint64_t bytes = 0;

  /// The ggml type of the same numbers; nothing for U8, F8_E4M3, BOOL and what is unknown.
  std::optional<TensorType> type() const {
    return safetensors_element_bytes(dtype) == 0 ? std::nullopt : type_by_name(dtype);
  }
};

struct SafeTensors {
  std::vector<std::unique_ptr<io::File>> files;
  std::vector<SafeTensor> tensors;                            // file by file, by offset
  std::vector<std::pair<std::string, std::string>> metadata;  // "__metadata__" of all files
};

/// Reads the header of one open file; `index` becomes SafeTensor::file.
Result<SafeTensors> read_safetensors_header(const io::File& file, uint32_t index);

/// One file.
Result<SafeTensors> open_safetensors_file(io::Io& io, const std::string& path);

/// A folder: the shards that model.safetensors.index.json names (every tensor of its weight_map must be where it says);
/// without an index model.safetensors alone; without that every *.safetensors.
Result<SafeTensors> open_safetensors_folder(io::Io& io, const std::string& folder);

}  // namespace evros::format
