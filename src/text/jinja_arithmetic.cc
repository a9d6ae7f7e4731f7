// Numbers, as Python computes them, within 64 bits.
#include <cmath>

#include "base/str.h"
#include "text/jinja_interpreter.h"

namespace evros::text::jinja {
namespace {

[[noreturn]] void overflow() { fail("a whole number leaves the range of 64 bits", Code::unsupported); }
[[noreturn]] void division_by_zero() { fail("division by zero"); }

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) division_by_zero();
  if (b == -1 && a == INT64_MIN) overflow();
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t modulo(int64_t a, int64_t b) {
  if (b == 0) division_by_zero();
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double modulo(double a, double b) {
  if (b == 0) division_by_zero();
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

int64_t power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if (exponent & 1 && __builtin_mul_overflow(result, base, &result)) overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow();
  }
  return result;
}

Value whole(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+") return __builtin_add_overflow(a, b, &result) ? (overflow(), result) : result;
  if (op == "-") return __builtin_sub_overflow(a, b, &result) ? (overflow(), result) : result;
  if (op == "*") return __builtin_mul_overflow(a, b, &result) ? (overflow(), result) : result;
  if (op == "//") return floor_divide(a, b);
  if (op == "%") return modulo(a, b);
  if (op == "**" && b >= 0) return power(a, b);
  if (b == 0 && op == "/") division_by_zero();
  if (op == "**" && a == 0) division_by_zero();
  return op == "/" ? static_cast<double>(a) / static_cast<double>(b)
                   : std::pow(static_cast<double>(a), static_cast<double>(b));
}

Value real(std::string_view op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "%") return modulo(a, b);
  if (op == "**") {
    if (a == 0 && b < 0) division_by_zero();
    if (a < 0 && b != std::floor(b)) fail("a power of a negative number is complex", Code::unsupported);
    return std::pow(a, b);
  }
  if (b == 0) division_by_zero();
  return op == "//" ? std::floor(a / b) : a / b;
}

}  // namespace

Value Interpreter::arithmetic(std::string_view op, const Value& left, const Value& right) {
  if (left.is_undefined()) left.fail_undefined();
  if (right.is_undefined()) right.fail_undefined();
  if (!left.is_number() || !right.is_number()) {
    fail(cat("unsupported operand type(s) for ", op, ": '", left.type_name(), "' and '", right.type_name(), "'"));
  }
  if (left.is_float() || right.is_float()) return real(op, left.as_double(), right.as_double());
  return whole(op, left.as_int(), right.as_int());
}

}  // namespace evros::text::jinja
