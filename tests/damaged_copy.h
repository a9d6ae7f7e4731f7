// Copies of the micro checkpoint with damaged weights.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>

#include "golden.h"

namespace evros::tests {

using Changes = std::map<std::string, std::function<void(std::span<uint16_t>)>>;

/// A copy of the micro checkpoint whose named bfloat16 tensors went through their changes.
inline std::string damaged_copy(const std::string& folder, const Changes& changes) {
  const std::string micro = micro_file("hf");
  const std::filesystem::path to = std::filesystem::path(testing::TempDir()) / ("evros_damaged_" + folder);
  std::filesystem::remove_all(to);
  std::filesystem::copy(micro, to);
  const std::string path = (to / "model.safetensors").string();
  std::filesystem::permissions(path, std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
  auto file = format::open_safetensors_file(io::real_io(), path);
  CHECK(file.ok());
  for (const auto& [name, change] : changes) {
    const auto tensor = std::find_if(file->tensors.begin(), file->tensors.end(),
                                     [&wanted = name](const auto& t) { return t.name == wanted; });
    CHECK(tensor != file->tensors.end() && tensor->dtype == "BF16");
    std::vector<uint16_t> values(tensor->bytes / sizeof(uint16_t));
    CHECK(file->files[tensor->file]->read_at(tensor->offset, std::as_writable_bytes(std::span(values))).ok());
    change(values);
    std::fstream out(path, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(tensor->offset));
    out.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(tensor->bytes));
    CHECK(out.good());
  }
  return to.string();
}

}  // namespace evros::tests
