// Statements.
#include <algorithm>

#include "base/str.h"
#include "text/jinja_interpreter.h"

namespace evros::text::jinja {
namespace {

/// What `loop` is inside a for block. Lives only as long as somebody holds it; the elements are shared.
class Loop : public Object {
 public:
  explicit Loop(std::vector<Value> elements) : elements_(std::move(elements)) {}
  std::string type_name() const override { return "LoopContext"; }

  Value attribute(const std::string& name) const override {
    const auto count = static_cast<int64_t>(elements_.size());
    const auto at = static_cast<int64_t>(index_);
    if (name == "index") return at + 1;
    if (name == "index0") return at;
    if (name == "revindex") return count - at;
    if (name == "revindex0") return count - at - 1;
    if (name == "first") return at == 0;
    if (name == "last") return at + 1 == count;
    if (name == "length") return count;
    if (name == "depth") return int64_t{1};  // it counts recursive loops, which there are none of
    if (name == "depth0") return int64_t{0};
    if (name == "previtem") return at > 0 ? elements_[index_ - 1] : Value::undefined("there is no previous item");
    if (name == "nextitem") return at + 1 < count ? elements_[index_ + 1] : Value::undefined("there is no next item");
    if (name == "cycle") return cycle();
    if (name == "changed") return changed();
    return Object::attribute(name);
  }

  const Value& element() const { return elements_[index_]; }
  size_t size() const { return elements_.size(); }
  void go_to(size_t index) { index_ = index; }

 private:
  Value cycle() const {
    return make_function("cycle", [index = index_](Interpreter&, const Arguments& a) -> Value {
      if (a.positional.empty()) fail("loop.cycle needs at least one argument");
      return a.positional[index % a.positional.size()];
    });
  }
  Value changed() const {
    return make_function("changed", [last = last_](Interpreter& interpreter, const Arguments& a) -> Value {
      const Value now = interpreter.list(a.positional);
      // Kept apart from the loop, and without objects, so that nothing can come to contain itself.
      if (now.holds_object()) fail("loop.changed cannot compare namespaces or functions");
      const bool same = !last->is_none() && equal(*last, now);
      *last = now;
      return !same;
    });
  }

  std::vector<Value> elements_;
  size_t index_ = 0;
  std::shared_ptr<Value> last_ = std::make_shared<Value>();
};

}  // namespace

void Interpreter::render(const Body& body, const Context& context) {
  add_globals(globals_);
  for (const auto& [name, value] : context) globals_.variables[name] = value;
  run(body, globals_);
}

void Interpreter::emit(std::string_view text) {
  charge(text.size());
  if (output_->size() + text.size() > limits_.output) {
    fail(cat("the output grows beyond ", limits_.output, " bytes"), Code::out_of_memory);
  }
  output_->append(text);
}

Interpreter::Flow Interpreter::run(const Body& body, Frame& frame) {
  for (const auto& statement : body) {
    const Flow flow = run(*statement, frame);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::run(const Statement& s, Frame& frame) {
  charge(0);
  switch (s.kind) {
    case Statement::literal:
      emit(s.text);
      break;
    case Statement::print:
      emit(text(evaluate(*s.expression, frame)));
      break;
    case Statement::branch:
      return run_branch(s, frame);
    case Statement::loop:
      return run_loop(s, frame);
    case Statement::set:
      run_set(s, frame);
      break;
    case Statement::set_block: {
      Value value = string(capture(s.body, frame));
      frame.variables[s.targets[0]] = apply_filters(s.expression.get(), std::move(value), frame);
      break;
    }
    case Statement::macro:
      frame.variables[s.text] = macro(s, &globals_, false);
      break;
    case Statement::call_block: {
      Arguments args = arguments(*s.expression, frame);
      const Value callee = evaluate(*s.expression->parts[0], frame);
      args.named.emplace_back("caller", macro(s, &frame, true));
      emit(text(call(callee, args)));
      break;
    }
    case Statement::filter_block: {
      Value value = string(capture(s.body, frame));
      emit(text(apply_filters(s.expression.get(), std::move(value), frame)));
      break;
    }
    case Statement::with:
      return run_with(s, frame);
    case Statement::group:
      return run(s.body, frame);
    case Statement::do_break:
      return Flow::do_break;
    case Statement::do_continue:
      return Flow::do_continue;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::run_branch(const Statement& s, Frame& frame) {
  for (size_t i = 0; i < s.expressions.size(); ++i) {
    if (evaluate(*s.expressions[i], frame).truthy()) return run(s.bodies[i], frame);
  }
  return s.bodies.size() > s.expressions.size() ? run(s.bodies.back(), frame) : Flow::normal;
}

void Interpreter::assign(const Statement& s, Frame& frame, const Value& value) {
  if (!s.unpack) {
    frame.variables[s.targets[0]] = value;
    return;
  }
  std::vector<Value> parts = elements(value);
  if (parts.size() != s.targets.size()) {
    fail(cat("line ", s.line, ": cannot unpack ", parts.size(), " values into ", s.targets.size(), " names"));
  }
  for (size_t i = 0; i < parts.size(); ++i) frame.variables[s.targets[i]] = std::move(parts[i]);
}

Interpreter::Flow Interpreter::run_loop(const Statement& s, Frame& frame) {
  std::vector<Value> all = elements(evaluate(*s.expression, frame));
  if (s.condition) {
    std::vector<Value> kept;
    for (Value& element : all) {
      charge(0);
      Frame scope{&frame, {}};
      assign(s, scope, element);
      if (evaluate(*s.condition, scope).truthy()) kept.push_back(std::move(element));
    }
    all = std::move(kept);
  }
  const auto loop = std::make_shared<Loop>(std::move(all));
  for (size_t i = 0; i < loop->size(); ++i) {
    charge(0);
    loop->go_to(i);
    Frame scope{&frame, {}};
    scope.variables["loop"] = Value(std::shared_ptr<Object>(loop));
    assign(s, scope, loop->element());
    if (run(s.body, scope) == Flow::do_break) break;
  }
  if (loop->size() == 0) {
    Frame scope{&frame, {}};
    return run(s.otherwise, scope);
  }
  return Flow::normal;
}

void Interpreter::run_set(const Statement& s, Frame& frame) {
  const Value value = evaluate(*s.expression, frame);
  if (s.attribute.empty()) return assign(s, frame, value);
  const Value* target = frame.find(s.targets[0]);
  Namespace* space = target && target->is_object() ? dynamic_cast<Namespace*>(target->as_object().get()) : nullptr;
  if (!space) fail(cat("line ", s.line, ": cannot set an attribute of '", s.targets[0], "', which is no namespace"));
  space->set(s.attribute, value);
}

Interpreter::Flow Interpreter::run_with(const Statement& s, Frame& frame) {
  Frame scope{&frame, {}};
  for (size_t i = 0; i < s.targets.size(); ++i) scope.variables[s.targets[i]] = evaluate(*s.expressions[i], frame);
  return run(s.body, scope);
}

std::string Interpreter::capture(const Body& body, Frame& frame) {
  std::string text;
  std::string* outer = std::exchange(output_, &text);
  Frame scope{&frame, {}};
  run(body, scope);  // a Failure ends the whole rendering: output_ needs no restoring then
  output_ = outer;
  return text;
}

Value Interpreter::macro(const Statement& s, Frame* parent, bool caller) {
  return make_function(caller ? "caller" : s.text, [&s, parent](Interpreter& interpreter, const Arguments& a) {
    return interpreter.call_macro(s, parent, a);
  });
}

Value Interpreter::call_macro(const Statement& s, Frame* parent, const Arguments& given) {
  Frame scope{parent, {}};
  const std::string name = s.kind == Statement::macro ? s.text : "caller";
  std::vector<std::pair<std::string, Value>> extra;
  for (const auto& [key, value] : given.named) {
    const bool known = std::any_of(s.parameters.begin(), s.parameters.end(),
                                   [&name_given = key](const Parameter& p) { return p.name == name_given; });
    if (key == "caller" && !known) {
      scope.variables["caller"] = value;
    } else if (known) {
      scope.variables[key] = value;
    } else {
      fail(cat("macro '", name, "' takes no argument '", key, "'"));
    }
  }
  if (given.positional.size() > s.parameters.size()) {
    fail(cat("macro '", name, "' takes not more than ", s.parameters.size(), " argument(s)"));
  }
  for (size_t i = 0; i < s.parameters.size(); ++i) {
    const Parameter& parameter = s.parameters[i];
    if (i < given.positional.size()) {
      if (scope.variables.contains(parameter.name))
        fail(cat("macro '", name, "' got two values for '", parameter.name, "'"));
      scope.variables[parameter.name] = given.positional[i];
    } else if (!scope.variables.contains(parameter.name)) {
      scope.variables[parameter.name] =
          parameter.otherwise ? evaluate(*parameter.otherwise, scope)
                              : Value::undefined(cat("parameter '", parameter.name, "' was not provided"));
    }
  }
  return string(capture(s.body, scope));
}

}  // namespace evros::text::jinja
