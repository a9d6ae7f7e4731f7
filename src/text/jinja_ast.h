// The parsed template. Internal to this folder.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace evros::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum Kind : uint8_t {
    constant,  // value
    name,      // text
    list,
    tuple,      // parts
    dict,       // parts: key, value, key, value, ...
    attribute,  // parts[0].text
    item,       // parts[0][parts[1]]
    slice,      // parts[0][parts[1]:parts[2]:parts[3]]; missing ones are null
    call,       // parts[0](parts[1..], named)
    filter,     // parts[0] | text(parts[1..], named); parts[0] is null in a filter block
    test,       // parts[0] is text(parts[1..], named)
    negate,
    plus,
    logical_not,  // parts[0]
    binary,       // parts[0] text parts[1]: + - * / // % **
    concat,       // parts joined as text
    compare,      // parts[0] operators[0] parts[1] operators[1] ...
    logical_and,
    logical_or,   // parts[0], parts[1]
    conditional,  // parts[0] if parts[1] else parts[2], which may be null
  };
  Kind kind;
  int line = 0;
  uint32_t depth = 1;  // of the tree below, itself included
  std::string text;
  Value value;
  std::vector<ExpressionPtr> parts;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  std::vector<std::string> operators;
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

struct Parameter {
  std::string name;
  ExpressionPtr otherwise;  // null: undefined when not given
};

struct Statement {
  enum Kind : uint8_t {
    literal,       // text
    print,         // expression
    branch,        // conditions[i] -> bodies[i]; one more body is the else
    loop,          // for targets in expression if condition: body; otherwise
    set,           // targets = expression; or target.attribute = expression
    set_block,     // targets[0] = text of the body through expression (filters, or null)
    macro,         // text(parameters): body
    call_block,    // expression is a call; body becomes its caller(parameters)
    filter_block,  // text of the body through expression
    with,          // targets[i] = expressions[i]: body
    group,         // body, nothing else ({% generation %})
    do_break,
    do_continue,
  };
  Kind kind;
  int line = 0;
  std::string text;
  std::string attribute;  // set: not empty for ns.attribute
  ExpressionPtr expression, condition;
  std::vector<ExpressionPtr> expressions;  // branch: conditions; with: values
  std::vector<std::string> targets;
  bool unpack = false;  // targets come from a tuple
  std::vector<Body> bodies;
  Body body, otherwise;
  std::vector<Parameter> parameters;
};

/// Throws Failure, naming the line.
Body parse_template(std::string_view source);

}  // namespace evros::text::jinja
