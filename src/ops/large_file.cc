#include "ops/large_file.h"

#include "base/str.h"

namespace evros::ops {

Status check_space(io::Io& io, const std::string& path, uint64_t bytes) {
  const auto partial = io.open(path + ".partial");
  const uint64_t held = partial.ok() ? (*partial)->allocated_bytes() : 0, free = io.free_bytes(path);
  if (bytes <= held || bytes - held <= free) return {};
  return Error{Code::io, cat(path, " needs ", human_bytes(bytes),
                             held > 0 ? cat(", of which ", human_bytes(held), " are there,") : "",
                             " and its file system has ", human_bytes(free), " free")};
}

Status check_stop(const std::atomic<bool>* stop) {
  if (stop == nullptr || !stop->load(std::memory_order_relaxed)) return {};
  return Error{Code::cancelled, "the work was stopped"};
}

}  // namespace evros::ops
