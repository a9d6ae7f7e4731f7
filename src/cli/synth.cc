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
    const std::atomic<bool>& stop = stop_on_signals();
    if (a.sparse) return ops::synth_real(io::real_io(), a.to, bar.progress(), &stop);
    const ops::RandomOptions options{a.layers, a.experts, a.vocab, a.table_rows, a.type, a.seed, a.threads, &stop};
    return ops::synth_random(io::real_io(), a.to, options, bar.progress());
  }();
  if (!done.ok()) return fail_or_stop(done.error(), cat("; nothing of ", a.to, " is left"));
  if (!a.quiet) {
    for (const std::string& path : done->paths) std::printf("%s\n", path.c_str());
    std::printf("%llu tensors, %s long\n", static_cast<unsigned long long>(done->tensors),
                human_bytes(done->apparent_bytes).c_str());
  }
  return 0;
}

}  // namespace evros::cli
