// evros convert: a model in any container as one GGUF file.
#include "ops/convert.h"

#include <cstdio>

#include "base/check.h"
#include "base/str.h"
#include "cli/arguments.h"
#include "cli/common.h"
#include "cli/progress_bar.h"

namespace evros::cli {

int convert(const ConvertArguments& a) {
  const auto type = format::type_by_name(a.type);
  CHECK(type.has_value());  // arguments.cc knows the names
  const auto done = [&] {
    ProgressBar bar("converting", a.quiet);
    return ops::convert(io::real_io(), a.from, a.to, {*type, a.name, !a.no_mtp}, bar.progress());
  }();
  if (!done.ok()) return fail(done.error());
  if (!a.quiet) {
    std::printf("%s: %llu tensors, %s from %s\n", a.to.c_str(), static_cast<unsigned long long>(done->tensors),
                human_bytes(done->bytes_written).c_str(), human_bytes(done->bytes_read).c_str());
  }
  return 0;
}

}  // namespace evros::cli
