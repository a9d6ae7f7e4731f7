// Result<T>: the value, or an Error with a closed code and one plain sentence. For everything that the outside world can
// cause (files, users, devices, disks); broken invariants are CHECKs. No exception crosses a folder.
//
//   Result<int> f();                         // [[nodiscard]] by type
//   EVROS_TRY(write(x));                     // return the error of a Status or Result
//   EVROS_ASSIGN(auto v, f());               // declare v from the value, or return the error
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/check.h"

namespace evros {

enum class Code {
  invalid_argument,  // the caller asked for something that has no meaning
  bad_file,          // a file's content is wrong or torn
  unsupported,       // valid, but this build or machine cannot do it
  not_found,         // a path, key, tensor, session that is not there
  io,                // the operating system refused or failed
  out_of_memory,     // memory, banks, pages or frames are used up
  busy,              // a bound on concurrent work was reached; trying later may succeed
  stale,             // a (slot, generation) that names an earlier sequence
  cancelled,         // somebody asked for it
  timeout,           // the time allowed for it was used up
  non_finite,        // the arithmetic of a sequence left the finite numbers
  device,            // a device refused a launch or failed
};

/// The code's name as it stands in logs and JSON: "bad_file".
const char* code_name(Code code);

/// One sentence: what was wrong, where (file, key, tensor), the value seen and the value wanted. No trailing period needed.
struct Error {
  Code code;
  std::string message;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const T& value() const& { return CHECK(ok()), *value_; }
  T& value() & { return CHECK(ok()), *value_; }
  T&& value() && { return CHECK(ok()), std::move(*value_); }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }
  const Error& error() const { return CHECK(!ok()), error_; }

 private:
  std::optional<T> value_;
  Error error_{};
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return CHECK(!ok()), *error_; }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace evros

#define EVROS_CONCAT_(a, b) a##b
#define EVROS_CONCAT(a, b) EVROS_CONCAT_(a, b)
#define EVROS_TRY(expression)                                                                 \
  do {                                                                                        \
    if (auto evros_status_ = (expression); !evros_status_.ok()) return evros_status_.error(); \
  } while (false)
#define EVROS_ASSIGN_(temporary, declaration, expression) \
  auto temporary = (expression);                          \
  if (!temporary.ok()) return temporary.error();          \
  declaration = std::move(temporary).value()
#define EVROS_ASSIGN(declaration, expression) \
  EVROS_ASSIGN_(EVROS_CONCAT(evros_result_, __LINE__), declaration, expression)
