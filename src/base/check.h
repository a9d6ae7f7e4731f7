// CHECK: a broken invariant of this program, never of the outside world. On in every build; prints the sentence and aborts.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace evros::detail {
[[noreturn]] inline void check_failed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "evros: internal error at %s:%d: CHECK(%s) failed\n", file, line, what);
  std::abort();
}
}  // namespace evros::detail

#define CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::evros::detail::check_failed(__FILE__, __LINE__, #condition))
