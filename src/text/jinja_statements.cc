#include <algorithm>

#include "base/str.h"
#include "text/jinja_parser.h"

namespace evros::text::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

class StatementParser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Body run() {
    Body all = body({});
    if (peek().kind != Token::end) error(cat("an unexpected {% ", peek(1).value.substr(0, 40), " %}"));
    return all;
  }

 private:
  using StatementPtr = std::unique_ptr<Statement>;

  /// Statements up to a block tag with one of the names, which stays; without names, up to the end.
  Body body(Names ends) {
    const Nest nest(*this);
    Body out;
    for (;;) {
      const Token& token = peek();
      if (token.kind == Token::end) {
        if (ends.size() > 0) error(cat("the template ends inside a block; wanted is {% ", *(ends.end() - 1), " %}"));
        return out;
      }
      if (token.kind == Token::block_begin) {
        if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return is_name(end, 1); })) return out;
        if (is_name("endif", 1) || is_name("endfor", 1) || is_name("else", 1) || is_name("elif", 1)) {
          error(cat("an unexpected {% ", peek(1).value, " %}"));
        }
      }
      out.push_back(statement());
    }
  }

  /// Takes {% name.
  void open_tag(std::string_view name) {
    next();
    expect_name(name);
  }

  void close_tag() {
    if (peek().kind != Token::block_end) unexpected("'%}'");
    next();
  }

  void end_tag(std::string_view name) {
    open_tag(name);
    close_tag();
  }

  StatementPtr make(Statement::Kind kind) {
    auto s = std::make_unique<Statement>();
    s->kind = kind;
    s->line = peek().line;
    return s;
  }

  StatementPtr statement() {
    if (peek().kind == Token::text) {
      StatementPtr s = make(Statement::literal);
      s->text = next().value;
      return s;
    }
    if (peek().kind == Token::print_begin) {
      StatementPtr s = make(Statement::print);
      next();
      s->expression = expression_list();
      if (peek().kind != Token::print_end) unexpected("'}}'");
      next();
      return s;
    }
    return block();
  }

  StatementPtr block() {
    next();
    const std::string tag = expect_identifier();
    if (tag == "if") return branch();
    if (tag == "for") return loop();
    if (tag == "set") return set();
    if (tag == "macro") return macro();
    if (tag == "call") return call_block();
    if (tag == "filter") return filter_block();
    if (tag == "with") return with();
    if (tag == "generation") return group();
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) error(cat("{% ", tag, " %} stands outside a loop"));
      StatementPtr s = make(tag == "break" ? Statement::do_break : Statement::do_continue);
      close_tag();
      return s;
    }
    error(cat("the tag {% ", tag.substr(0, 40), " %} is not supported"));
  }

  StatementPtr branch() {
    StatementPtr s = make(Statement::branch);
    for (bool more = true; more;) {
      s->expressions.push_back(expression_list(false));
      close_tag();
      s->bodies.push_back(body({"elif", "else", "endif"}));
      next();
      more = skip_name("elif");
    }
    if (skip_name("else")) {
      close_tag();
      s->bodies.push_back(body({"endif"}));
      next();
    }
    expect_name("endif");
    close_tag();
    return s;
  }

  /// name or name, name, ... or (name, name)
  void targets(Statement& s) {
    const bool parenthesized = skip_op("(");
    s.targets.push_back(target());
    while (skip_op(",")) {
      s.unpack = true;
      if (peek().kind == Token::name && !is_name("in")) s.targets.push_back(target());
    }
    if (parenthesized) expect_op(")");
  }

  std::string target() {
    std::string name = expect_identifier();
    for (const std::string_view reserved :
         {"true", "false", "none", "True", "False", "None", "and", "or", "not", "in", "is", "if", "else"}) {
      if (name == reserved) error(cat("cannot assign to '", name, "'"));
    }
    return name;
  }

  StatementPtr loop() {
    StatementPtr s = make(Statement::loop);
    targets(*s);
    expect_name("in");
    s->expression = expression_list(false);
    if (skip_name("if")) s->condition = expression();
    if (is_name("recursive")) error("recursive loops are not supported");
    close_tag();
    ++loops_;
    s->body = body({"else", "endfor"});
    --loops_;
    next();
    if (skip_name("else")) {
      close_tag();
      s->otherwise = body({"endfor"});
      next();
    }
    expect_name("endfor");
    close_tag();
    return s;
  }

  StatementPtr set() {
    StatementPtr s = make(Statement::set);
    targets(*s);
    if (s->targets.size() == 1 && skip_op(".")) s->attribute = expect_identifier();
    if (skip_op("=")) {
      s->expression = expression_list();
      close_tag();
      return s;
    }
    if (s->unpack) unexpected("'='");
    s->kind = Statement::set_block;
    if (skip_op("|")) s->expression = filters(nullptr);
    close_tag();
    s->body = inner_body({"endset"});
    end_tag("endset");
    return s;
  }

  /// A body in which break and continue do not reach a loop outside.
  Body inner_body(Names ends) {
    const int loops = std::exchange(loops_, 0);
    Body out = body(ends);
    loops_ = loops;
    return out;
  }

  void parameters(Statement& s) {
    expect_op("(");
    while (!is_op(")")) {
      Parameter parameter{target(), nullptr};
      if (skip_op("=")) {
        parameter.otherwise = expression();
      } else if (!s.parameters.empty() && s.parameters.back().otherwise) {
        error("a parameter without a default follows one with a default");
      }
      s.parameters.push_back(std::move(parameter));
      if (!is_op(")")) expect_op(",");
    }
    expect_op(")");
  }

  StatementPtr macro() {
    StatementPtr s = make(Statement::macro);
    s->text = target();
    parameters(*s);
    close_tag();
    s->body = inner_body({"endmacro"});
    end_tag("endmacro");
    return s;
  }

  StatementPtr call_block() {
    StatementPtr s = make(Statement::call_block);
    if (is_op("(")) parameters(*s);
    s->expression = expression();
    if (s->expression->kind != Expression::call) error("{% call %} needs a call");
    close_tag();
    s->body = inner_body({"endcall"});
    end_tag("endcall");
    return s;
  }

  StatementPtr filter_block() {
    StatementPtr s = make(Statement::filter_block);
    s->expression = filters(nullptr);
    close_tag();
    s->body = inner_body({"endfilter"});
    end_tag("endfilter");
    return s;
  }

  StatementPtr with() {
    StatementPtr s = make(Statement::with);
    while (peek().kind != Token::block_end) {
      s->targets.push_back(target());
      expect_op("=");
      s->expressions.push_back(expression());
      if (peek().kind != Token::block_end) expect_op(",");
    }
    close_tag();
    s->body = body({"endwith"});
    end_tag("endwith");
    return s;
  }

  StatementPtr group() {
    StatementPtr s = make(Statement::group);
    close_tag();
    s->body = body({"endgeneration"});
    end_tag("endgeneration");
    return s;
  }

  int loops_ = 0;
};

}  // namespace

Body parse_template(std::string_view source) { return StatementParser(tokenize(source)).run(); }

}  // namespace evros::text::jinja
