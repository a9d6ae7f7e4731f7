// evros synth: a model file without a model.
#include "ops/synth.h"

#include <cstdio>

#include "base/str.h"
#include "cli/arguments.h"
#include "cli/common.h"
#include "cli/progress_bar.h"
#include "ops/synth_random.h"

namespace evros::cli {

int synth(const SynthArguments& a) {
  const auto done = [&] {
    ProgressBar bar("writing", a.quiet);
    if (a.sparse) return ops::synth_real(io::real_io(), a.to, bar.progress());
    const ops::RandomOptions options{a.layers, a.experts, a.vocab, a.table_rows, a.type, a.seed, a.threads};
    return ops::synth_random(io::real_io(), a.to, options, bar.progress());
  }();
  if (!done.ok()) return fail(done.error());
  if (!a.quiet) {
    for (const std::string& path : done->paths) std::printf("%s\n", path.c_str());
    std::printf("%llu tensors, %s long\n", static_cast<unsigned long long>(done->tensors),
                human_bytes(done->apparent_bytes).c_str());
  }
  return 0;
}

}  // namespace evros::cli
