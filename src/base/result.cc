#include "base/result.h"

namespace evros {

const char* code_name(Code code) {
  switch (code) {
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::bad_file:
      return "bad_file";
    case Code::unsupported:
      return "unsupported";
    case Code::not_found:
      return "not_found";
    case Code::io:
      return "io";
    case Code::out_of_memory:
      return "out_of_memory";
    case Code::busy:
      return "busy";
    case Code::stale:
      return "stale";
    case Code::cancelled:
      return "cancelled";
    case Code::timeout:
      return "timeout";
    case Code::non_finite:
      return "non_finite";
    case Code::device:
      return "device";
  }
  return "unknown";
}

}  // namespace evros
