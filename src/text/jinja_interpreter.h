// Evaluates a parsed template. Internal to this folder; throws Failure.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "text/jinja.h"
#include "text/jinja_ast.h"

namespace evros::text::jinja {

class Interpreter;

/// The variables of one scope; assignments never leave it.
struct Frame {
  Frame* parent = nullptr;
  std::map<std::string, Value, std::less<>> variables;

  const Value* find(const std::string& name) const {
    for (const Frame* frame = this; frame; frame = frame->parent) {
      const auto at = frame->variables.find(name);
      if (at != frame->variables.end()) return &at->second;
    }
    return nullptr;
  }
};

/// The arguments of a call, filter or test.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// Argument `index`, or the one called `name`; null when it is not given.
  const Value* find(size_t index, std::string_view name) const;
  const Value& require(size_t index, std::string_view name, std::string_view function) const;
  std::string text(size_t index, std::string_view name, std::string otherwise) const;
  int64_t integer(size_t index, std::string_view name, int64_t otherwise) const;
  bool flag(size_t index, std::string_view name, bool otherwise) const;
  /// Fails when there are more than `count` arguments, or a named one that is not listed.
  void at_most(size_t count, std::string_view function) const;
};

using Native = std::function<Value(Interpreter&, const Arguments&)>;

/// A function, a bound method or a macro.
class Function : public Object {
 public:
  Function(std::string name, Native body) : name_(std::move(name)), body_(std::move(body)) {}
  std::string type_name() const override { return "function"; }
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, const Arguments& arguments) const { return body_(interpreter, arguments); }

 private:
  std::string name_;
  Native body_;
};

Value make_function(std::string name, Native body);

class Namespace : public Object {
 public:
  std::string type_name() const override { return "Namespace"; }
  Value attribute(const std::string& name) const override;
  /// Refuses objects, which could make the namespace contain itself.
  void set(const std::string& name, Value value);

 private:
  std::map<std::string, Value> attributes_;
};

class Interpreter {
 public:
  Interpreter(const Limits& limits, std::string& output) : limits_(limits), output_(&output) {}

  void render(const Body& body, const Context& context);

  // Services for filters, tests and methods.

  /// One unit of work, and `bytes` of new data; fails when the budget is used up.
  void charge(size_t bytes);
  size_t text_limit() const { return limits_.output; }
  std::string text(const Value& value);                      // str(value), charged
  Value list(std::vector<Value> items, bool tuple = false);  // charged
  Value string(std::string text);                            // charged
  /// What `for` goes through: elements, keys or characters. Fails for what is not iterable.
  std::vector<Value> elements(const Value& value);
  Value attribute(const Value& object, const std::string& name);
  Value item(const Value& object, const Value& key);
  Value call(const Value& callee, const Arguments& arguments);
  Value filter(const std::string& name, const Value& input, const Arguments& arguments);
  bool test(const std::string& name, const Value& input, const Arguments& arguments);
  Value binary(std::string_view op, const Value& left, const Value& right);
  bool contains(const Value& container, const Value& element);
  int64_t now() const { return limits_.now; }

 private:
  enum class Flow { normal, do_break, do_continue };
  struct Nest;

  Flow run(const Body& body, Frame& frame);
  Flow run(const Statement& statement, Frame& frame);
  Flow run_branch(const Statement& statement, Frame& frame);
  Flow run_loop(const Statement& statement, Frame& frame);
  void run_set(const Statement& statement, Frame& frame);
  Flow run_with(const Statement& statement, Frame& frame);
  std::string capture(const Body& body, Frame& frame);  // runs it in a scope of its own
  Value macro(const Statement& statement, Frame* definition, bool caller);
  Value call_macro(const Statement& statement, Frame* parent, const Arguments& arguments);
  void assign(const Statement& statement, Frame& frame, const Value& value);
  void emit(std::string_view text);

  Value evaluate(const Expression& e, Frame& frame);
  Value evaluate_inner(const Expression& e, Frame& frame);
  Value evaluate_name(const Expression& e, Frame& frame);
  Value evaluate_collection(const Expression& e, Frame& frame);
  Value evaluate_call(const Expression& e, Frame& frame);
  Value evaluate_slice(const Expression& e, Frame& frame);
  Value evaluate_compare(const Expression& e, Frame& frame);
  Value evaluate_filter(const Expression& e, const Value& input, Frame& frame);
  Value apply_filters(const Expression* e, Value input, Frame& frame);
  Arguments arguments(const Expression& e, Frame& frame);
  Value arithmetic(std::string_view op, const Value& left, const Value& right);
  Value repeat(const Value& sequence, int64_t count);

  const Limits& limits_;
  std::string* output_;
  size_t steps_ = 0, bytes_ = 0;
  uint32_t depth_ = 0;
  Frame globals_;
};

// The built-in tables; null when there is no such name.
using FilterFunction = Value (*)(Interpreter&, const Value&, const Arguments&);
using TestFunction = bool (*)(Interpreter&, const Value&, const Arguments&);
FilterFunction find_filter(std::string_view name);
FilterFunction find_text_filter(std::string_view name);
TestFunction find_test(std::string_view name);
/// A method of a string, list or map, bound to it; undefined when there is none.
Value find_method(const Value& object, const std::string& name);
/// range, namespace, dict, raise_exception, strftime_now
void add_globals(Frame& frame);

}  // namespace evros::text::jinja
