// What comes before and between the pieces of writing a large file: is there room for it, and shall the work go on?
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "io/io.h"

namespace evros::ops {

/// Code::io, with the numbers, when the file system of `path` has not `bytes` bytes free for the file. What a partial file
/// of that name, PATH.partial, takes already is written over or gone on with: it counts as free.
Status check_space(io::Io& io, const std::string& path, uint64_t bytes);

/// Code::cancelled once `stop` is set; null never is.
Status check_stop(const std::atomic<bool>* stop);

}  // namespace evros::ops
