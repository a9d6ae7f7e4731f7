// Expressions.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/str.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_strings.h"

namespace evros::text::jinja {

struct Interpreter::Nest {
  explicit Nest(Interpreter& i) : interpreter(i) {
    if (++i.depth_ > i.limits_.depth) {
      fail(cat("the template recurses more than ", i.limits_.depth, " levels deep"), Code::out_of_memory);
    }
  }
  ~Nest() { --interpreter.depth_; }
  Nest(const Nest&) = delete;
  Nest& operator=(const Nest&) = delete;
  Interpreter& interpreter;
};

void Interpreter::charge(size_t bytes) {
  bytes_ += std::min(bytes, limits_.bytes + 1);
  if (++steps_ > limits_.steps)
    fail(cat("the template takes more than ", limits_.steps, " steps"), Code::out_of_memory);
  if (bytes_ > limits_.bytes) fail(cat("the template makes more than ", limits_.bytes, " bytes"), Code::out_of_memory);
}

std::string Interpreter::text(const Value& value) {
  std::string out = to_text(value, limits_.output);
  charge(out.size());
  return out;
}

Value Interpreter::list(std::vector<Value> items, bool tuple) {
  charge(items.size() * sizeof(Value) + sizeof(List));
  return Value::list(std::move(items), tuple);
}

Value Interpreter::string(std::string text) {
  if (text.size() > limits_.output) fail(cat("a text grows beyond ", limits_.output, " bytes"), Code::out_of_memory);
  charge(text.size() + sizeof(std::string));
  return Value(std::move(text));
}

std::vector<Value> Interpreter::elements(const Value& value) {
  std::vector<Value> out;
  if (value.is_list()) {
    charge(value.items().size() * sizeof(Value));
    out = value.items();
  } else if (value.is_map()) {
    charge(value.as_map().entries.size() * (sizeof(Value) + sizeof(std::string)));
    for (const auto& [key, item] : value.as_map().entries) out.push_back(string(key));
  } else if (value.is_string()) {
    const std::string& text = value.as_string();
    charge(text.size() * (2 * sizeof(Value) + sizeof(std::string)));
    for_each_character(text, [&](std::string_view c, uint32_t) { out.push_back(Value(c)); });
  } else if (!value.is_undefined()) {
    fail(cat("'", value.type_name(), "' object is not iterable"));
  }
  return out;
}

Value Interpreter::evaluate(const Expression& e, Frame& frame) {
  const Nest nest(*this);
  charge(0);
  return evaluate_inner(e, frame);
}

Value Interpreter::evaluate_inner(const Expression& e, Frame& frame) {
  const auto part = [&](size_t i) { return evaluate(*e.parts[i], frame); };
  switch (e.kind) {
    case Expression::constant:
      return e.value;
    case Expression::name:
      return evaluate_name(e, frame);
    case Expression::list:
    case Expression::tuple:
    case Expression::dict:
      return evaluate_collection(e, frame);
    case Expression::attribute:
      return attribute(part(0), e.text);
    case Expression::item: {
      const Value object = part(0);
      return item(object, part(1));
    }
    case Expression::slice:
      return evaluate_slice(e, frame);
    case Expression::call:
      return evaluate_call(e, frame);
    case Expression::filter:
      return evaluate_filter(e, part(0), frame);
    case Expression::test: {
      const Value subject = part(0);
      return test(e.text, subject, arguments(e, frame));
    }
    case Expression::negate:
      return arithmetic("-", Value(int64_t{0}), part(0));
    case Expression::plus:
      return arithmetic("+", Value(int64_t{0}), part(0));
    case Expression::logical_not:
      return !part(0).truthy();
    case Expression::binary: {
      const Value left = part(0);
      return binary(e.text, left, part(1));
    }
    case Expression::concat: {
      std::string out;
      for (size_t i = 0; i < e.parts.size(); ++i) out += text(part(i));
      return string(std::move(out));
    }
    case Expression::compare:
      return evaluate_compare(e, frame);
    case Expression::logical_and: {
      Value left = part(0);
      return left.truthy() ? part(1) : left;
    }
    case Expression::logical_or: {
      Value left = part(0);
      return left.truthy() ? left : part(1);
    }
    case Expression::conditional:
      if (part(1).truthy()) return part(0);
      if (e.parts[2]) return part(2);
      return Value::undefined("the inline if-expression evaluated to false and no else section was defined");
  }
  CHECK(false);
  return {};
}

Value Interpreter::evaluate_name(const Expression& e, Frame& frame) {
  const Value* value = frame.find(e.text);
  return value ? *value : Value::undefined(cat("'", e.text, "' is undefined"));
}

Value Interpreter::evaluate_collection(const Expression& e, Frame& frame) {
  std::vector<Value> values;
  values.reserve(e.parts.size());
  for (const auto& part : e.parts) values.push_back(evaluate(*part, frame));
  if (e.kind != Expression::dict) return list(std::move(values), e.kind == Expression::tuple);
  std::vector<std::pair<std::string, Value>> entries;
  for (size_t i = 0; i + 1 < values.size(); i += 2) {
    if (!values[i].is_string())
      fail(cat("line ", e.line, ": mapping keys must be strings, not ", values[i].type_name()), Code::unsupported);
    charge(values[i].as_string().size() + 2 * sizeof(Value));
    entries.emplace_back(values[i].as_string(), std::move(values[i + 1]));
  }
  return Value::map(std::move(entries));
}

Arguments Interpreter::arguments(const Expression& e, Frame& frame) {
  Arguments out;
  for (size_t i = 1; i < e.parts.size(); ++i) out.positional.push_back(evaluate(*e.parts[i], frame));
  for (const auto& [name, value] : e.named) out.named.emplace_back(name, evaluate(*value, frame));
  return out;
}

Value Interpreter::evaluate_call(const Expression& e, Frame& frame) {
  const Value callee = evaluate(*e.parts[0], frame);
  return call(callee, arguments(e, frame));
}

Value Interpreter::call(const Value& callee, const Arguments& args) {
  if (callee.is_undefined()) callee.fail_undefined();
  const auto* function = callee.is_object() ? dynamic_cast<const Function*>(callee.as_object().get()) : nullptr;
  if (!function) fail(cat("'", callee.type_name(), "' object is not callable"));
  const Nest nest(*this);
  return function->call(*this, args);
}

Value Interpreter::filter(const std::string& name, const Value& input, const Arguments& args) {
  const Nest nest(*this);
  charge(0);
  FilterFunction function = find_filter(name);
  if (!function) function = find_text_filter(name);
  if (!function) fail(cat("there is no filter '", name, "'"), Code::unsupported);
  return function(*this, input, args);
}

bool Interpreter::test(const std::string& name, const Value& input, const Arguments& args) {
  charge(0);
  const TestFunction function = find_test(name);
  if (!function) fail(cat("there is no test '", name, "'"), Code::unsupported);
  return function(*this, input, args);
}

Value Interpreter::evaluate_filter(const Expression& e, const Value& input, Frame& frame) {
  return filter(e.text, input, arguments(e, frame));
}

Value Interpreter::apply_filters(const Expression* e, Value input, Frame& frame) {
  if (!e) return input;
  return evaluate_filter(*e, apply_filters(e->parts[0].get(), std::move(input), frame), frame);
}

Value Interpreter::attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) object.fail_undefined();
  if (object.is_object()) return object.as_object()->attribute(name);
  Value method = find_method(object, name);
  if (!method.is_undefined()) return method;
  if (object.is_map()) {
    if (const Value* value = object.as_map().find(name)) return *value;
  }
  return Value::undefined(cat("'", object.type_name(), " object' has no attribute '", name.substr(0, 100), "'"));
}

Value Interpreter::item(const Value& object, const Value& key) {
  if (object.is_undefined()) object.fail_undefined();
  if (object.is_map() && key.is_string()) {
    if (const Value* value = object.as_map().find(key.as_string())) return *value;
  } else if (object.is_list() && key.is_integral()) {
    const auto size = static_cast<int64_t>(object.items().size());
    const int64_t at = key.as_int() < 0 ? key.as_int() + size : key.as_int();
    if (at >= 0 && at < size) return object.items()[static_cast<size_t>(at)];
  } else if (object.is_string() && key.is_integral()) {
    charge(object.as_string().size());
    const auto all = characters(object.as_string());
    const auto size = static_cast<int64_t>(all.size());
    const int64_t at = key.as_int() < 0 ? key.as_int() + size : key.as_int();
    if (at >= 0 && at < size) return Value(all[static_cast<size_t>(at)]);
  } else if (object.is_object() && key.is_string()) {
    return object.as_object()->attribute(key.as_string());
  }
  std::string shown;
  append_repr(shown, key, limits_.output);
  return Value::undefined(cat("'", object.type_name(), " object' has no element ", shown.substr(0, 100)));
}

namespace {

/// Python's rules for slice bounds: where to start, how many steps.
struct Slice {
  int64_t start, count, step;
};

Slice resolve_slice(const Value* start, const Value* stop, const Value* step, int64_t size) {
  const auto bound = [](const Value* v) -> std::optional<int64_t> {
    if (!v || v->is_none()) return std::nullopt;
    if (v->is_undefined()) v->fail_undefined();
    if (!v->is_integral()) fail("slice indices must be integers or None");
    return v->as_int();
  };
  const int64_t stride = bound(step).value_or(1);
  if (stride == 0) fail("slice step cannot be zero");
  const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
  const auto clamp = [&](std::optional<int64_t> v, int64_t otherwise) {
    if (!v) return otherwise;
    return std::clamp(*v < 0 ? *v + size : *v, low, high);
  };
  const int64_t first = clamp(bound(start), stride > 0 ? 0 : size - 1);
  const int64_t last = clamp(bound(stop), stride > 0 ? size : -1);
  const int64_t distance = stride > 0 ? last - first : first - last;
  if (distance <= 0) return {first, 0, stride};
  const uint64_t width = stride > 0 ? static_cast<uint64_t>(stride) : uint64_t{0} - static_cast<uint64_t>(stride);
  return {first, static_cast<int64_t>((static_cast<uint64_t>(distance) - 1) / width + 1), stride};
}

}  // namespace

Value Interpreter::evaluate_slice(const Expression& e, Frame& frame) {
  const Value object = evaluate(*e.parts[0], frame);
  Value bounds[3];
  const Value* given[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    if (e.parts[i + 1]) bounds[i] = evaluate(*e.parts[i + 1], frame), given[i] = &bounds[i];
  }
  if (object.is_undefined()) object.fail_undefined();
  if (object.is_string()) {
    charge(object.as_string().size());
    const auto all = characters(object.as_string());
    const Slice slice = resolve_slice(given[0], given[1], given[2], static_cast<int64_t>(all.size()));
    std::string out;
    for (int64_t n = 0, at = slice.start; n < slice.count; ++n) {
      out.append(all[static_cast<size_t>(at)]);
      if (n + 1 < slice.count) at += slice.step;
    }
    return string(std::move(out));
  }
  if (!object.is_list()) fail(cat("line ", e.line, ": '", object.type_name(), "' object cannot be sliced"));
  const auto& all = object.items();
  const Slice slice = resolve_slice(given[0], given[1], given[2], static_cast<int64_t>(all.size()));
  charge(static_cast<size_t>(slice.count) * sizeof(Value));
  std::vector<Value> out;
  for (int64_t n = 0, at = slice.start; n < slice.count; ++n) {
    out.push_back(all[static_cast<size_t>(at)]);
    if (n + 1 < slice.count) at += slice.step;
  }
  return list(std::move(out), object.as_list().tuple);
}

bool Interpreter::contains(const Value& container, const Value& element) {
  if (container.is_string()) {
    if (element.is_undefined()) element.fail_undefined();
    if (!element.is_string()) fail(cat("'in <string>' requires string as left operand, not ", element.type_name()));
    charge(container.as_string().size());
    return container.as_string().find(element.as_string()) != std::string::npos;
  }
  if (container.is_map()) return element.is_string() && container.as_map().find(element.as_string()) != nullptr;
  if (container.is_undefined()) return false;
  if (!container.is_list()) fail(cat("argument of type '", container.type_name(), "' is not iterable"));
  charge(container.items().size());
  return std::any_of(container.items().begin(), container.items().end(),
                     [&](const Value& v) { return equal(v, element); });
}

Value Interpreter::evaluate_compare(const Expression& e, Frame& frame) {
  Value left = evaluate(*e.parts[0], frame);
  for (size_t i = 0; i < e.operators.size(); ++i) {
    Value right = evaluate(*e.parts[i + 1], frame);
    const std::string& op = e.operators[i];
    bool holds;
    if (op == "==") {
      holds = equal(left, right);
    } else if (op == "!=") {
      holds = !equal(left, right);
    } else if (op == "in") {
      holds = contains(right, left);
    } else if (op == "not in") {
      holds = !contains(right, left);
    } else if (op == "<") {
      holds = less(left, right);
    } else if (op == ">") {
      holds = less(right, left);
    } else if (op == "<=") {
      holds = less(left, right) || equal(left, right);
    } else {
      holds = less(right, left) || equal(left, right);
    }
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::repeat(const Value& sequence, int64_t count) {
  const size_t times = count < 0 ? 0 : static_cast<size_t>(count);
  const size_t size = sequence.is_string() ? sequence.as_string().size() : sequence.items().size() * sizeof(Value);
  if (size > 0 && times > limits_.output / size)
    fail(cat("a repetition grows beyond ", limits_.output, " bytes"), Code::out_of_memory);
  charge(size * times);
  if (sequence.is_string()) {
    std::string out;
    for (size_t i = 0; i < times && size > 0; ++i) out += sequence.as_string();
    return string(std::move(out));
  }
  std::vector<Value> out;
  for (size_t i = 0; i < times && size > 0; ++i)
    out.insert(out.end(), sequence.items().begin(), sequence.items().end());
  return list(std::move(out), sequence.as_list().tuple);
}

Value Interpreter::binary(std::string_view op, const Value& left, const Value& right) {
  if (left.is_undefined()) left.fail_undefined();
  if (right.is_undefined()) right.fail_undefined();
  if (op == "+" && left.is_string() && right.is_string()) {
    charge(left.as_string().size() + right.as_string().size());
    return string(left.as_string() + right.as_string());
  }
  if (op == "+" && left.is_list() && right.is_list() && left.as_list().tuple == right.as_list().tuple) {
    charge((left.items().size() + right.items().size()) * sizeof(Value));
    std::vector<Value> out = left.items();
    out.insert(out.end(), right.items().begin(), right.items().end());
    return list(std::move(out), left.as_list().tuple);
  }
  if (op == "*" && (left.is_string() || left.is_list()) && right.is_integral()) return repeat(left, right.as_int());
  if (op == "*" && (right.is_string() || right.is_list()) && left.is_integral()) return repeat(right, left.as_int());
  if (op == "%" && left.is_string()) fail("string formatting with % is not supported", Code::unsupported);
  return arithmetic(op, left, right);
}

}  // namespace evros::text::jinja
