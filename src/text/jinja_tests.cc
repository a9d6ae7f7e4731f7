// `is` tests, global functions, and the arguments of everything that is called.
#include <algorithm>
#include <ctime>
#include <unordered_map>

#include "base/str.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_strings.h"

namespace evros::text::jinja {

const Value* Arguments::find(size_t index, std::string_view name) const {
  if (index < positional.size()) return &positional[index];
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

const Value& Arguments::require(size_t index, std::string_view name, std::string_view function) const {
  const Value* value = find(index, name);
  if (!value) fail(cat(function, " needs the argument '", name, "'"));
  return *value;
}

std::string Arguments::text(size_t index, std::string_view name, std::string otherwise) const {
  const Value* value = find(index, name);
  if (!value) return otherwise;
  if (value->is_undefined()) value->fail_undefined();
  if (!value->is_string()) fail(cat("the argument '", name, "' must be a string, not ", value->type_name()));
  return value->as_string();
}

int64_t Arguments::integer(size_t index, std::string_view name, int64_t otherwise) const {
  const Value* value = find(index, name);
  if (!value || value->is_none()) return otherwise;
  if (value->is_undefined()) value->fail_undefined();
  if (!value->is_integral()) fail(cat("the argument '", name, "' must be a whole number, not ", value->type_name()));
  return value->as_int();
}

bool Arguments::flag(size_t index, std::string_view name, bool otherwise) const {
  const Value* value = find(index, name);
  return value ? value->truthy() : otherwise;
}

void Arguments::at_most(size_t count, std::string_view function) const {
  if (positional.size() + named.size() > count) fail(cat(function, " takes at most ", count, " argument(s)"));
}

Value make_function(std::string name, Native body) {
  return Value(std::shared_ptr<Object>(std::make_shared<Function>(std::move(name), std::move(body))));
}

Value Namespace::attribute(const std::string& name) const {
  const auto at = attributes_.find(name);
  return at == attributes_.end() ? Object::attribute(name) : at->second;
}

void Namespace::set(const std::string& name, Value value) {
  if (value.holds_object()) fail("a namespace can hold data only, no namespace, loop or function", Code::unsupported);
  attributes_[name] = std::move(value);
}

namespace {

using Args = const Arguments&;

int64_t whole(const Value& value, std::string_view test) {
  if (value.is_undefined()) value.fail_undefined();
  if (!value.is_integral()) fail(cat("the test '", test, "' needs a whole number, not ", value.type_name()));
  return value.as_int();
}

bool all_cased(const Value& value, bool (*wanted)(uint32_t), bool (*unwanted)(uint32_t)) {
  bool some = false, wrong = false;
  if (value.is_string()) {
    for_each_character(value.as_string(), [&](std::string_view, uint32_t c) {
      some = some || wanted(c);
      wrong = wrong || unwanted(c);
    });
  }
  return some && !wrong;
}

bool divisible(Interpreter&, const Value& v, Args a) {
  const int64_t by = whole(a.require(0, "num", "divisibleby"), "divisibleby");
  if (by == 0) fail("division by zero");
  return by == -1 || whole(v, "divisibleby") % by == 0;
}

bool is_equal(Interpreter&, const Value& v, Args a) { return equal(v, a.require(0, "other", "eq")); }
bool is_unequal(Interpreter&, const Value& v, Args a) { return !equal(v, a.require(0, "other", "ne")); }
bool is_less(Interpreter&, const Value& v, Args a) { return less(v, a.require(0, "other", "lt")); }
bool is_greater(Interpreter&, const Value& v, Args a) { return less(a.require(0, "other", "gt"), v); }
bool at_most(Interpreter&, const Value& v, Args a) { return !less(a.require(0, "other", "le"), v); }
bool at_least(Interpreter&, const Value& v, Args a) { return !less(v, a.require(0, "other", "ge")); }

const std::unordered_map<std::string_view, TestFunction>& tests() {
  static const std::unordered_map<std::string_view, TestFunction> kTests = {
      {"defined", [](Interpreter&, const Value& v, Args) { return !v.is_undefined(); }},
      {"undefined", [](Interpreter&, const Value& v, Args) { return v.is_undefined(); }},
      {"none", [](Interpreter&, const Value& v, Args) { return v.is_none(); }},
      {"string", [](Interpreter&, const Value& v, Args) { return v.is_string(); }},
      {"mapping", [](Interpreter&, const Value& v, Args) { return v.is_map(); }},
      {"iterable", [](Interpreter&, const Value& v,
                      Args) { return v.is_string() || v.is_list() || v.is_map() || v.is_undefined(); }},
      {"sequence", [](Interpreter&, const Value& v,
                      Args) { return v.is_string() || v.is_list() || v.is_map() || v.is_undefined(); }},
      {"number", [](Interpreter&, const Value& v, Args) { return v.is_number(); }},
      {"integer", [](Interpreter&, const Value& v, Args) { return v.is_int(); }},
      {"float", [](Interpreter&, const Value& v, Args) { return v.is_float(); }},
      {"boolean", [](Interpreter&, const Value& v, Args) { return v.is_bool(); }},
      {"true", [](Interpreter&, const Value& v, Args) { return v.is_bool() && v.as_bool(); }},
      {"false", [](Interpreter&, const Value& v, Args) { return v.is_bool() && !v.as_bool(); }},
      {"callable", [](Interpreter&, const Value& v, Args) { return v.is_object() && v.as_object()->callable(); }},
      {"sameas", [](Interpreter&, const Value& v, Args a) { return v.same_as(a.require(0, "other", "sameas")); }},
      {"in", [](Interpreter& i, const Value& v, Args a) { return i.contains(a.require(0, "seq", "in"), v); }},
      {"odd", [](Interpreter&, const Value& v, Args) { return whole(v, "odd") % 2 != 0; }},
      {"even", [](Interpreter&, const Value& v, Args) { return whole(v, "even") % 2 == 0; }},
      {"divisibleby", divisible},
      {"lower", [](Interpreter&, const Value& v, Args) { return all_cased(v, is_lower, is_upper); }},
      {"upper", [](Interpreter&, const Value& v, Args) { return all_cased(v, is_upper, is_lower); }},
      {"filter", [](Interpreter&, const Value& v,
                    Args) { return v.is_string() && (find_filter(v.as_string()) || find_text_filter(v.as_string())); }},
      {"test", [](Interpreter&, const Value& v, Args) { return v.is_string() && find_test(v.as_string()); }},
      {"eq", is_equal},
      {"equalto", is_equal},
      {"==", is_equal},
      {"ne", is_unequal},
      {"!=", is_unequal},
      {"lt", is_less},
      {"lessthan", is_less},
      {"<", is_less},
      {"gt", is_greater},
      {"greaterthan", is_greater},
      {">", is_greater},
      {"le", at_most},
      {"<=", at_most},
      {"ge", at_least},
      {">=", at_least},
  };
  return kTests;
}

Value range(Interpreter& interpreter, Args a) {
  if (a.positional.empty()) fail("range needs at least one argument");
  const int64_t first = a.integer(0, "start", 0);
  const int64_t start = a.positional.size() > 1 ? first : 0;
  const int64_t stop = a.positional.size() > 1 ? a.integer(1, "stop", 0) : first;
  const int64_t step = a.integer(2, "step", 1);
  if (step == 0) fail("range's step must not be zero");
  static constexpr size_t kMaxRange = 100'000;  // the sandbox's limit
  std::vector<Value> out;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (out.size() == kMaxRange) fail(cat("a range has more than ", kMaxRange, " elements"));
    out.push_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return interpreter.list(std::move(out));
}

Value make_namespace(Interpreter& interpreter, Args a) {
  auto space = std::make_shared<Namespace>();
  for (const Value& v : a.positional) {
    if (!v.is_map()) fail("namespace takes named values or a mapping");
    interpreter.charge(v.as_map().entries.size() * sizeof(Value));
    for (const auto& [key, value] : v.as_map().entries) space->set(key, value);
  }
  for (const auto& [key, value] : a.named) space->set(key, value);
  return Value(std::shared_ptr<Object>(std::move(space)));
}

Value make_dict(Interpreter& interpreter, Args a) {
  std::vector<std::pair<std::string, Value>> entries;
  for (const Value& v : a.positional) {
    if (!v.is_map()) fail("dict takes named values or a mapping", Code::unsupported);
    interpreter.charge(v.as_map().entries.size() * 2 * sizeof(Value));
    entries.insert(entries.end(), v.as_map().entries.begin(), v.as_map().entries.end());
  }
  entries.insert(entries.end(), a.named.begin(), a.named.end());
  return Value::map(std::move(entries));
}

Value strftime_now(Interpreter& interpreter, Args a) {
  const std::string format = a.text(0, "format", "");
  if (format.empty()) return interpreter.string({});
  std::time_t now = interpreter.now() >= 0 ? static_cast<std::time_t>(interpreter.now()) : std::time(nullptr);
  std::tm local{};
  if (!localtime_r(&now, &local)) fail("the clock cannot be read");
  // strftime tells "too long" and "empty" apart in no way: a byte in front makes every result non-empty.
  std::string out(1024, '\0');
  const size_t size = std::strftime(out.data(), out.size(), ("x" + format).c_str(), &local);
  if (size == 0) fail(cat("the date of strftime_now has more than ", out.size() - 2, " bytes"));
  return interpreter.string(out.substr(1, size - 1));
}

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto at = tests().find(name);
  return at == tests().end() ? nullptr : at->second;
}

void add_globals(Frame& frame) {
  const auto add = [&](const char* name, Native body) { frame.variables[name] = make_function(name, std::move(body)); };
  add("range", range);
  add("namespace", make_namespace);
  add("dict", make_dict);
  add("strftime_now", strftime_now);
  add("raise_exception", [](Interpreter&, Args a) -> Value {
    const Value& message = a.require(0, "message", "raise_exception");
    fail(to_text(message, 4096));
  });
}

}  // namespace evros::text::jinja
