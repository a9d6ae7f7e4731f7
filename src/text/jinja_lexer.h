// Template source to tokens, with the white-space rules of trim_blocks and lstrip_blocks. Internal to this folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace evros::text::jinja {

struct Token {
  enum Kind : uint8_t {
    text,         // literal output
    print_begin,  // {{
    print_end,
    block_begin,  // {%
    block_end,
    name,
    string,
    integer,
    floating,
    op,  // one of the operators, in `value`
    end,
  };
  Kind kind;
  std::string value;  // strings: escapes resolved; integers: decimal digits; operators: "==", "(", ...
  int line;
};

/// Ends with one `end` token. Throws Failure, naming the line, when the source is no template.
std::vector<Token> tokenize(std::string_view source);

}  // namespace evros::text::jinja
