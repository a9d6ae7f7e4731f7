#include "cli/arguments.h"
#include "cli/common.h"
namespace evros::cli {
int convert(const ConvertArguments&) { return fail(Error{Code::unsupported, "convert"}); }
}  // namespace evros::cli
