#include "format/safetensors_writer.h"

#include <algorithm>
#include <boost/json.hpp>
#include <memory>

#include "base/bytes.h"
#include "base/check.h"
#include "format/safetensors.h"

namespace evros::format {

namespace json = boost::json;

namespace {

/// Header length, then the header, padded with spaces so that data starts at a multiple of 8.
std::string header_of(std::span<const SafeTensorData* const> tensors) {
  json::object header;
  uint64_t offset = 0;
  for (const SafeTensorData* tensor : tensors) {
    uint64_t bytes = safetensors_element_bytes(tensor->dtype);
    for (const uint64_t n : tensor->shape) bytes *= n;
    CHECK(bytes == tensor->data.size() && safetensors_element_bytes(tensor->dtype) > 0);
    json::object entry;
    entry["dtype"] = tensor->dtype;
    entry["shape"] = json::array(tensor->shape.begin(), tensor->shape.end());
    entry["data_offsets"] = json::array{offset, offset + bytes};
    CHECK(header.emplace(tensor->name, std::move(entry)).second);
    offset += bytes;
  }
  std::string text = json::serialize(header);
  text.resize(align_up(text.size(), 8), ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

Status write_all(io::File& file, std::span<const SafeTensorData* const> tensors) {
  const std::string header = header_of(tensors);
  EVROS_TRY(file.write_at(0, std::as_bytes(std::span(header))));
  uint64_t offset = header.size();
  for (const SafeTensorData* tensor : tensors) {
    EVROS_TRY(file.write_at(offset, tensor->data));
    offset += tensor->data.size();
  }
  return file.sync();
}

}  // namespace

Status write_safetensors(io::Io& io, const std::string& path, std::span<const SafeTensorData> tensors) {
  std::vector<const SafeTensorData*> order;
  for (const SafeTensorData& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return safetensors_element_bytes(a->dtype) > safetensors_element_bytes(b->dtype);
  });
  const std::string partial = path + ".partial";
  EVROS_ASSIGN(std::unique_ptr<io::File> file, io.create(partial));
  Status written = write_all(*file, order);
  if (written.ok()) written = io.rename(partial, path);
  if (!written.ok()) static_cast<void>(io.remove(partial).ok());
  return written;
}

}  // namespace evros::format
