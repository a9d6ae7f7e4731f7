#include "cli/arguments.h"
#include "cli/common.h"
namespace evros::cli {
int synth(const SynthArguments&) { return fail(Error{Code::unsupported, "synth"}); }
}  // namespace evros::cli
