// evros convert: a model in any container as one GGUF file.
#include "ops/convert.h"

#include <cstdio>

#include "base/check.h"
#include "base/str.h"
#include "cli/arguments.h"
#include "cli/common.h"
#include "cli/progress_bar.h"
#include "io/process.h"

namespace evros::cli {
namespace {

void print_importance(const ops::ImportanceUse& use) {
  std::printf("importance matrix: %s weighted, %llu without an entry; %s that no token reached, quantised without it\n",
              counted(use.weighted, "tensor").c_str(), static_cast<unsigned long long>(use.missing),
              counted(use.unreached, "expert").c_str());
}

/// What is left of a conversion that was stopped.
std::string what_is_left(const ConvertArguments& a) {
  return a.resume ? cat("; ", a.to, ".partial stays, and the same command goes on with it")
                  : cat("; ", a.to, ".partial is removed (with --resume it would stay, to go on with)");
}

}  // namespace

int convert(const ConvertArguments& a) {
  const auto type = format::type_by_name(a.type);
  CHECK(type.has_value());  // arguments.cc knows the names
  ops::ConvertOptions options{*type,     a.name,   !a.no_mtp, format::type_by_name(a.table_type),
                              a.threads, a.resume, a.imatrix, &stop_on_signals()};
  if (!a.quiet) options.notice = say;
  const auto done = [&] {
    ProgressBar bar("converting", a.quiet);
    return ops::convert(io::real_io(), a.from, a.to, options, bar.progress());
  }();
  if (!done.ok()) return fail_or_stop(done.error(), what_is_left(a));
  if (!a.quiet && !a.imatrix.empty()) print_importance(done->importance);
  if (!a.quiet) {
    std::printf("%s: %llu tensors, %s from %s\n", a.to.c_str(), static_cast<unsigned long long>(done->tensors),
                human_bytes(done->bytes_written).c_str(), human_bytes(done->bytes_read).c_str());
  }
  return 0;
}

}  // namespace evros::cli
