#include <algorithm>
#include <charconv>

#include "base/str.h"
#include "text/jinja_parser.h"

namespace evros::text::jinja {

ExpressionParser::Nest::Nest(ExpressionParser& p) : parser(p) {
  if (++p.nesting_ > kMaxTreeDepth) {
    --p.nesting_;
    p.error(cat("nested more than ", kMaxTreeDepth, " levels deep"));
  }
}

void ExpressionParser::error(std::string_view what) const {
  fail(cat("line ", peek().line, ": ", what), Code::bad_file);
}

void ExpressionParser::unexpected(std::string_view wanted) const {
  const Token& token = peek();
  std::string seen = token.value.substr(0, 40);
  if (token.kind == Token::block_end) seen = "%}";
  if (token.kind == Token::print_end) seen = "}}";
  if (token.kind == Token::end) seen = "the end of the template";
  if (token.kind == Token::block_begin || token.kind == Token::print_begin) seen = "a tag";
  error(cat("found '", seen, "', wanted is ", wanted));
}

void ExpressionParser::expect_op(std::string_view op) {
  if (!skip_op(op)) unexpected(cat("'", op, "'"));
}

void ExpressionParser::expect_name(std::string_view name) {
  if (!skip_name(name)) unexpected(cat("'", name, "'"));
}

std::string ExpressionParser::expect_identifier() {
  if (peek().kind != Token::name) unexpected("a name");
  return next().value;
}

ExpressionPtr ExpressionParser::sized(ExpressionPtr e) const {
  for (const ExpressionPtr& part : e->parts) {
    if (part) e->depth = std::max(e->depth, part->depth + 1);
  }
  for (const auto& [name, part] : e->named) e->depth = std::max(e->depth, part->depth + 1);
  if (e->depth > kMaxTreeDepth) error(cat("an expression is nested more than ", kMaxTreeDepth, " levels deep"));
  return e;
}

ExpressionPtr ExpressionParser::node(Expression::Kind kind, std::vector<ExpressionPtr> parts, std::string text) {
  auto e = std::make_unique<Expression>();
  e->kind = kind;
  e->line = peek().line;
  e->parts = std::move(parts);
  e->text = std::move(text);
  return sized(std::move(e));
}

namespace {

template <typename... E>
std::vector<ExpressionPtr> list_of(E... e) {
  std::vector<ExpressionPtr> out;
  (out.push_back(std::move(e)), ...);
  return out;
}

}  // namespace

ExpressionPtr ExpressionParser::expression(bool with_condition) {
  const Nest nest(*this);
  ExpressionPtr e = logical_or();
  while (with_condition && skip_name("if")) {
    ExpressionPtr condition = logical_or();
    ExpressionPtr otherwise = skip_name("else") ? expression() : nullptr;
    e = node(Expression::conditional, list_of(std::move(e), std::move(condition), std::move(otherwise)));
  }
  return e;
}

ExpressionPtr ExpressionParser::expression_list(bool with_condition) {
  ExpressionPtr first = expression(with_condition);
  if (!is_op(",")) return first;
  std::vector<ExpressionPtr> parts = list_of(std::move(first));
  while (skip_op(",")) {
    const Token& token = peek();
    if (token.kind == Token::block_end || token.kind == Token::print_end || is_op(")")) break;
    parts.push_back(expression(with_condition));
  }
  return node(Expression::tuple, std::move(parts));
}

ExpressionPtr ExpressionParser::logical_or() {
  ExpressionPtr left = logical_and();
  while (skip_name("or")) {
    ExpressionPtr right = logical_and();
    left = node(Expression::logical_or, list_of(std::move(left), std::move(right)));
  }
  return left;
}

ExpressionPtr ExpressionParser::logical_and() {
  ExpressionPtr left = logical_not();
  while (skip_name("and")) {
    ExpressionPtr right = logical_not();
    left = node(Expression::logical_and, list_of(std::move(left), std::move(right)));
  }
  return left;
}

ExpressionPtr ExpressionParser::logical_not() {
  if (!skip_name("not")) return comparison();
  const Nest nest(*this);
  ExpressionPtr operand = logical_not();
  return node(Expression::logical_not, list_of(std::move(operand)));
}

ExpressionPtr ExpressionParser::comparison() {
  ExpressionPtr first = sum();
  std::vector<ExpressionPtr> parts;
  std::vector<std::string> operators;
  for (;;) {
    static constexpr std::string_view kComparisons[] = {"==", "!=", "<", "<=", ">", ">="};
    const bool symbol =
        peek().kind == Token::op && std::count(std::begin(kComparisons), std::end(kComparisons), peek().value) > 0;
    if (symbol || is_name("in")) {
      operators.push_back(next().value);
    } else if (is_name("not") && is_name("in", 1)) {
      next(), next();
      operators.push_back("not in");
    } else {
      break;
    }
    parts.push_back(sum());
  }
  if (operators.empty()) return first;
  parts.insert(parts.begin(), std::move(first));
  ExpressionPtr e = node(Expression::compare, std::move(parts));
  e->operators = std::move(operators);
  return e;
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr left = concatenation();
  while (is_op("+") || is_op("-")) {
    std::string op = next().value;
    ExpressionPtr right = concatenation();
    left = node(Expression::binary, list_of(std::move(left), std::move(right)), std::move(op));
  }
  return left;
}

ExpressionPtr ExpressionParser::concatenation() {
  ExpressionPtr first = product();
  if (!is_op("~")) return first;
  std::vector<ExpressionPtr> parts = list_of(std::move(first));
  while (skip_op("~")) parts.push_back(product());
  return node(Expression::concat, std::move(parts));
}

ExpressionPtr ExpressionParser::product() {
  ExpressionPtr left = power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    std::string op = next().value;
    ExpressionPtr right = power();
    left = node(Expression::binary, list_of(std::move(left), std::move(right)), std::move(op));
  }
  return left;
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr left = unary(true);
  while (skip_op("**")) {
    ExpressionPtr right = unary(true);
    left = node(Expression::binary, list_of(std::move(left), std::move(right)), "**");
  }
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  const Nest nest(*this);
  ExpressionPtr e;
  if (skip_op("-")) {
    e = unary(false);
    e = node(Expression::negate, list_of(std::move(e)));
  } else if (skip_op("+")) {
    e = unary(false);
    e = node(Expression::plus, list_of(std::move(e)));
  } else {
    e = primary();
  }
  e = postfix(std::move(e));
  return with_filters ? filters_tests_calls(std::move(e)) : std::move(e);
}

ExpressionPtr ExpressionParser::primary() {
  const Token& token = peek();
  if (token.kind == Token::string) return literal_string();
  if (token.kind == Token::integer || token.kind == Token::floating) return number();
  if (token.kind == Token::name) {
    ExpressionPtr e = node(Expression::constant);
    const std::string name = next().value;
    if (name == "true" || name == "True") {
      e->value = true;
    } else if (name == "false" || name == "False") {
      e->value = false;
    } else if (name != "none" && name != "None") {
      e->kind = Expression::name;
      e->text = name;
    }
    return e;
  }
  if (is_op("(")) return parenthesized();
  if (is_op("[")) return bracketed_list();
  if (is_op("{")) return dict();
  unexpected("an expression");
}

ExpressionPtr ExpressionParser::literal_string() {
  ExpressionPtr e = node(Expression::constant);
  std::string text;
  while (peek().kind == Token::string) text += next().value;  // adjacent literals are one
  e->value = Value(std::move(text));
  return e;
}

ExpressionPtr ExpressionParser::number() {
  ExpressionPtr e = node(Expression::constant);
  const Token token = next();
  const char *begin = token.value.data(), *end = begin + token.value.size();
  if (token.kind == Token::integer) {
    int64_t value = 0;
    if (std::from_chars(begin, end, value).ec != std::errc{})
      error(cat("the number ", token.value.substr(0, 40), " is too large"));
    e->value = value;
  } else {
    double value = 0;
    if (std::from_chars(begin, end, value).ec != std::errc{})
      error(cat("the number ", token.value.substr(0, 40), " is out of range"));
    e->value = value;
  }
  return e;
}

ExpressionPtr ExpressionParser::bracketed_list() {
  expect_op("[");
  std::vector<ExpressionPtr> parts;
  while (!is_op("]")) {
    parts.push_back(expression());
    if (!is_op("]")) expect_op(",");
  }
  expect_op("]");
  return node(Expression::list, std::move(parts));
}

ExpressionPtr ExpressionParser::dict() {
  expect_op("{");
  std::vector<ExpressionPtr> parts;
  while (!is_op("}")) {
    parts.push_back(expression());
    expect_op(":");
    parts.push_back(expression());
    if (!is_op("}")) expect_op(",");
  }
  expect_op("}");
  return node(Expression::dict, std::move(parts));
}

ExpressionPtr ExpressionParser::parenthesized() {
  expect_op("(");
  if (skip_op(")")) return node(Expression::tuple);
  ExpressionPtr e = expression_list();
  expect_op(")");
  return e;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr base) {
  for (;;) {
    if (skip_op(".")) {
      if (peek().kind == Token::integer) {  // x.0 is x[0]
        ExpressionPtr index = number();
        base = node(Expression::item, list_of(std::move(base), std::move(index)));
      } else {
        base = node(Expression::attribute, list_of(std::move(base)), expect_identifier());
      }
    } else if (is_op("[")) {
      base = subscript(std::move(base));
    } else if (is_op("(")) {
      base = node(Expression::call, list_of(std::move(base)));
      arguments(*base);
      base = sized(std::move(base));
    } else {
      return base;
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr base) {
  expect_op("[");
  std::vector<ExpressionPtr> parts = list_of(std::move(base));
  bool slice = false;
  ExpressionPtr part = is_op(":") ? nullptr : expression();
  parts.push_back(std::move(part));
  while (parts.size() < 4 && skip_op(":")) {
    slice = true;
    parts.push_back(is_op(":") || is_op("]") ? nullptr : expression());
  }
  if (!is_op("]")) unexpected("']'");
  next();
  if (!slice) return node(Expression::item, std::move(parts));
  parts.resize(4);
  return node(Expression::slice, std::move(parts));
}

ExpressionPtr ExpressionParser::filters_tests_calls(ExpressionPtr e) {
  for (;;) {
    if (is_op("|")) {
      e = one_filter(std::move(e));
    } else if (is_name("is")) {
      e = test(std::move(e));
    } else if (is_op("(")) {
      e = node(Expression::call, list_of(std::move(e)));
      arguments(*e);
      e = sized(std::move(e));
    } else {
      return e;
    }
  }
}

ExpressionPtr ExpressionParser::one_filter(ExpressionPtr input) {
  if (input) expect_op("|");
  std::string name = expect_identifier();
  while (skip_op(".")) name += "." + expect_identifier();
  ExpressionPtr e = node(Expression::filter, list_of(std::move(input)), std::move(name));
  if (is_op("(")) arguments(*e);
  return sized(std::move(e));
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr input) {
  ExpressionPtr e = one_filter(std::move(input));
  while (is_op("|")) e = one_filter(std::move(e));
  return e;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr subject) {
  expect_name("is");
  const bool negated = skip_name("not");
  ExpressionPtr e = node(Expression::test, list_of(std::move(subject)), expect_identifier());
  const Token& token = peek();
  const bool starts_argument = token.kind == Token::string || token.kind == Token::integer ||
                               token.kind == Token::floating || is_op("[") || is_op("{");
  const bool name_argument = token.kind == Token::name && !is_name("else") && !is_name("or") && !is_name("and") &&
                             !is_name("if") && !is_name("in") && !is_name("not") && !is_name("is");
  if (is_op("(")) {
    arguments(*e);
  } else if (starts_argument || name_argument) {
    ExpressionPtr argument = primary();
    e->parts.push_back(postfix(std::move(argument)));
  }
  e = sized(std::move(e));
  return negated ? node(Expression::logical_not, list_of(std::move(e))) : std::move(e);
}

void ExpressionParser::arguments(Expression& call) {
  expect_op("(");
  while (!is_op(")")) {
    if (is_op("*") || is_op("**")) error("argument unpacking with * is not supported");
    if (peek().kind == Token::name && is_op("=", 1)) {
      std::string name = next().value;
      next();
      call.named.emplace_back(std::move(name), expression());
    } else {
      if (!call.named.empty()) error("a positional argument follows a named one");
      call.parts.push_back(expression());
    }
    if (!is_op(")")) expect_op(",");
  }
  expect_op(")");
}

}  // namespace evros::text::jinja
