#include "cli/arguments.h"
#include "cli/common.h"
namespace evros::cli {
int trace(const TraceArguments&) { return fail(Error{Code::unsupported, "trace"}); }
}  // namespace evros::cli
