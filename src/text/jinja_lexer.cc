#include "text/jinja_lexer.h"

#include <algorithm>
#include <array>

#include "base/str.h"
#include "text/jinja_strings.h"
#include "text/jinja_value.h"

namespace evros::text::jinja {
namespace {

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<uint8_t>(c) >= 0x80;
}
bool is_decimal(char c) { return c >= '0' && c <= '9'; }

std::string_view rstrip(std::string_view s) { return strip(s, nullptr, false, true); }

/// One kind of line end, and without the last one, as Jinja reads its sources.
std::string normalize_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
    } else {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_lines(source)), rest_(source_) {}

  std::vector<Token> run() {
    while (!rest_.empty()) read_text();
    push(Token::end, {});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void error(std::string_view what) const { fail(cat("line ", line_, ": ", what), Code::bad_file); }

  void push(Token::Kind kind, std::string value) { tokens_.push_back({kind, std::move(value), line_}); }

  void advance(size_t n) {
    line_ += static_cast<int>(std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(n), '\n'));
    rest_.remove_prefix(n);
  }

  bool at_line_start() const { return rest_.size() == source_.size() || rest_.data()[-1] == '\n'; }

  void skip_space() { advance(rest_.size() - strip(rest_, nullptr, true, false).size()); }

  /// Literal text up to the next tag, then the tag.
  void read_text() {
    size_t open = rest_.find('{');
    while (open != std::string_view::npos &&
           (open + 1 == rest_.size() || std::string_view("{%#").find(rest_[open + 1]) == std::string_view::npos)) {
      open = rest_.find('{', open + 1);
    }
    if (open == std::string_view::npos) {
      push(Token::text, std::string(rest_));
      return advance(rest_.size());
    }
    const char kind = rest_[open + 1];
    const char sign = open + 2 < rest_.size() ? rest_[open + 2] : '\0';
    push_text(rest_.substr(0, open), kind, sign);
    advance(open + 2);
    if (sign == '-' || (sign == '+' && kind != '{')) advance(1);
    if (kind == '#') return read_comment();
    if (kind == '%' && read_raw()) return;
    push(kind == '{' ? Token::print_begin : Token::block_begin, {});
    read_expression(kind == '{');
  }

  /// `before`: the text in front of a tag of this kind and sign; stripped as the sign or lstrip_blocks asks.
  void push_text(std::string_view before, char kind, char sign) {
    if (sign == '-') {
      before = rstrip(before);
    } else if (kind != '{' && sign != '+') {
      const size_t newline = before.rfind('\n');
      const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line_begin > 0 || at_line_start()) && rstrip(before.substr(line_begin)).empty())
        before = before.substr(0, line_begin);
    }
    if (!before.empty()) push(Token::text, std::string(before));
  }

  /// After the end of a block or comment: a sign was given, or trim_blocks takes one line end.
  void after_block(char sign) {
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && !rest_.empty() && rest_[0] == '\n') {
      advance(1);
    }
  }

  void read_comment() {
    const size_t close = rest_.find("#}");
    if (close == std::string_view::npos) error("a comment has no #}");
    const char sign = close > 0 ? rest_[close - 1] : '\0';
    advance(close + 2);
    after_block(sign);
  }

  /// {% raw %} .. {% endraw %}; false when the tag is another one.
  bool read_raw() {
    std::string_view tag = strip(rest_, nullptr, true, false);
    if (!tag.starts_with("raw")) return false;
    tag = strip(tag.substr(3), nullptr, true, false);
    const bool strip_after = tag.starts_with("-%}");
    if (!strip_after && !tag.starts_with("%}")) return false;
    advance(rest_.size() - tag.size() + (strip_after ? 3 : 2));
    if (strip_after) skip_space();
    for (size_t open = rest_.find("{%"); open != std::string_view::npos; open = rest_.find("{%", open + 1)) {
      std::string_view close = rest_.substr(open + 2);
      const char sign = close.empty() ? '\0' : close[0];
      if (sign == '-' || sign == '+') close.remove_prefix(1);
      close = strip(close, nullptr, true, false);
      if (!close.starts_with("endraw")) continue;
      close = strip(close.substr(6), nullptr, true, false);
      const char end_sign = close.empty() ? '\0' : close[0];
      if (end_sign == '-' || end_sign == '+') close.remove_prefix(1);
      if (!close.starts_with("%}")) continue;
      push_text(rest_.substr(0, open), '%', sign);
      advance(rest_.size() - close.size() + 2);
      after_block(end_sign);
      return true;
    }
    error("a raw block has no endraw");
  }

  void read_expression(bool print) {
    const std::string_view close = print ? "}}" : "%}";
    std::string brackets;
    for (;;) {
      skip_space();
      if (rest_.empty()) error(cat("a tag has no ", close));
      if (brackets.empty()) {
        const bool sign = rest_[0] == '-' || (rest_[0] == '+' && !print);
        if (rest_.substr(sign ? 1 : 0).starts_with(close)) {
          const char mark = sign ? rest_[0] : '\0';
          push(print ? Token::print_end : Token::block_end, {});
          advance(sign ? 3 : 2);
          if (!print) {
            after_block(mark);
          } else if (mark == '-') {
            skip_space();
          }
          return;
        }
      }
      read_token(brackets);
    }
  }

  void read_token(std::string& brackets) {
    const char c = rest_[0];
    if (is_name_start(c)) {
      size_t n = 1;
      while (n < rest_.size() && (is_name_start(rest_[n]) || is_decimal(rest_[n]))) ++n;
      push(Token::name, std::string(rest_.substr(0, n)));
      return advance(n);
    }
    if (is_decimal(c)) return read_number();
    if (c == '"' || c == '\'') return read_string(c);
    static constexpr std::array<std::string_view, 26> kOperators = {"==", "!=", "<=", ">=", "//", "**", "+", "-", "*",
                                                                    "/",  "%",  "~",  "<",  ">",  "=",  "(", ")", "[",
                                                                    "]",  "{",  "}",  ",",  ".",  ":",  "|", ";"};
    for (const std::string_view op : kOperators) {
      if (!rest_.starts_with(op)) continue;
      if (op == "(" || op == "[" || op == "{") brackets.push_back(op == "(" ? ')' : op == "[" ? ']' : '}');
      if (op == ")" || op == "]" || op == "}") {
        if (brackets.empty() || brackets.back() != op[0]) error(cat("an unexpected '", op, "'"));
        brackets.pop_back();
      }
      push(Token::op, std::string(op));
      return advance(op.size());
    }
    error(cat("an unexpected character ", static_cast<int>(static_cast<uint8_t>(c))));
  }

  /// Digits with single underscores between them.
  size_t digits(size_t from) const {
    size_t n = from;
    while (n < rest_.size() &&
           (is_decimal(rest_[n]) || (rest_[n] == '_' && n > from && n + 1 < rest_.size() && is_decimal(rest_[n + 1]))))
      ++n;
    return n;
  }

  void read_number() {
    size_t n = digits(0);
    bool floating = false;
    if (n + 1 < rest_.size() && rest_[n] == '.' && is_decimal(rest_[n + 1])) n = digits(n + 1), floating = true;
    if (n < rest_.size() && (rest_[n] == 'e' || rest_[n] == 'E')) {
      const size_t sign = n + 1 < rest_.size() && (rest_[n + 1] == '+' || rest_[n + 1] == '-') ? 1 : 0;
      if (digits(n + 1 + sign) > n + 1 + sign) n = digits(n + 1 + sign), floating = true;
    }
    std::string value(rest_.substr(0, n));
    std::erase(value, '_');
    push(floating ? Token::floating : Token::integer, std::move(value));
    advance(n);
  }

  void read_string(char quote) {
    size_t end = 1;
    while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) error("a string has no closing quote");
    push(Token::string, unescape(rest_.substr(1, end - 1)));
    advance(end + 1);
  }

  /// The escapes of Python string literals; unknown ones stay as they are.
  std::string unescape(std::string_view text) const {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\' || i + 1 == text.size()) {
        out.push_back(text[i]);
        continue;
      }
      const char c = text[++i];
      static constexpr std::string_view kNames = "abfnrtv\\'\"", kValues = "\a\b\f\n\r\t\v\\'\"";
      if (const size_t at = kNames.find(c); at != std::string_view::npos) {
        out.push_back(kValues[at]);
      } else if (c == '\n') {
        continue;
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        append_code_point(out, text.substr(i + 1, count), count, 16);
        i += count;
      } else if (c >= '0' && c <= '7') {
        size_t count = 1;
        while (count < 3 && i + count < text.size() && text[i + count] >= '0' && text[i + count] <= '7') ++count;
        append_code_point(out, text.substr(i, count), count, 8);
        i += count - 1;
      } else {
        out.push_back('\\');
        out.push_back(c);
      }
    }
    return out;
  }

  void append_code_point(std::string& out, std::string_view digits, size_t count, int base) const {
    uint32_t value = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (digits.size() != count || parsed.ptr != digits.data() + count || value > 0x10FFFF ||
        (value >= 0xD800 && value <= 0xDFFF)) {
      error("a string has a broken escape sequence");
    }
    append_utf8(out, value);
  }

  const std::string source_;
  std::string_view rest_;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace evros::text::jinja
