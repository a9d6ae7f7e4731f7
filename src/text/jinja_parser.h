// Recursive descent over the tokens of a template; the grammar and precedence are Jinja2 3.1's. Internal to this folder.
#pragma once

#include <initializer_list>
#include <string_view>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace evros::text::jinja {

/// Trees deeper than this are refused: evaluation and destruction recurse.
inline constexpr uint32_t kMaxTreeDepth = 200;

/// Expressions.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token next() {
    Token token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool is_op(std::string_view op, size_t ahead = 0) const {
    return peek(ahead).kind == Token::op && peek(ahead).value == op;
  }
  bool is_name(std::string_view name, size_t ahead = 0) const {
    return peek(ahead).kind == Token::name && peek(ahead).value == name;
  }
  bool skip_op(std::string_view op) { return is_op(op) ? (next(), true) : false; }
  bool skip_name(std::string_view name) { return is_name(name) ? (next(), true) : false; }
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  std::string expect_identifier();
  [[noreturn]] void error(std::string_view what) const;
  [[noreturn]] void unexpected(std::string_view wanted) const;

  ExpressionPtr expression(bool with_condition = true);
  /// One expression, or several with commas between them as a tuple.
  ExpressionPtr expression_list(bool with_condition = true);
  /// filter | filter ... on `input`, which may be null (the text of a block).
  ExpressionPtr filters(ExpressionPtr input);

  /// Counts nested statements and brackets while parsing recurses.
  struct Nest {
    explicit Nest(ExpressionParser& p);
    ~Nest() { --parser.nesting_; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;
    ExpressionParser& parser;
  };

 private:
  ExpressionPtr node(Expression::Kind kind, std::vector<ExpressionPtr> parts = {}, std::string text = {});
  ExpressionPtr sized(ExpressionPtr expression) const;  // fills in depth and checks it
  ExpressionPtr logical_or();
  ExpressionPtr logical_and();
  ExpressionPtr logical_not();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr literal_string();
  ExpressionPtr number();
  ExpressionPtr bracketed_list();
  ExpressionPtr dict();
  ExpressionPtr parenthesized();
  ExpressionPtr postfix(ExpressionPtr base);
  ExpressionPtr subscript(ExpressionPtr base);
  ExpressionPtr filters_tests_calls(ExpressionPtr base);
  ExpressionPtr one_filter(ExpressionPtr input);
  ExpressionPtr test(ExpressionPtr subject);
  void arguments(Expression& call);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  uint32_t nesting_ = 0;
};

}  // namespace evros::text::jinja
