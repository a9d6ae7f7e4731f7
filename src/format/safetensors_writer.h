// Writes small safetensors files: traces and reference values, a tensor a span. For files that fit memory many times
// over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/io.h"

namespace evros::format {

/// `data` is borrowed for the call. Its length is the shape's product times the dtype's element size (CHECKed).
struct SafeTensorData {
  std::string name;             // UTF-8, unique in its file
  std::string dtype;            // "F32", "I32", "I64", "U8", ...: a dtype of known size
  std::vector<uint64_t> shape;  // outermost first; empty for a scalar
  std::span<const std::byte> data;
};

/// Writes PATH.partial, flushes it and renames it to `path`, so that `path` is never a torn file. Larger elements come
/// first, so that every tensor is aligned to its element.
Status write_safetensors(io::Io& io, const std::string& path, std::span<const SafeTensorData> tensors);

}  // namespace evros::format
