// The template language of chat templates: Jinja2 as the reference library sets it up (immutable sandbox, trim_blocks,
// lstrip_blocks, loop controls, its own tojson, raise_exception, strftime_now, {% generation %}).
//
//   EVROS_ASSIGN(auto tmpl, jinja::Template::parse(source));
//   EVROS_ASSIGN(std::string text, tmpl.render({{"messages", messages}, {"add_generation_prompt", true}}));
//
// Templates come from model files and are not trusted: whatever the source, parse and render end with text or an error,
// within the limits. Not supported, and refused by name: inheritance, include and import, recursive loops, * arguments,
// string formatting with %, whole numbers beyond 64 bits, mapping keys that are no strings.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja_value.h"

namespace evros::text::jinja {

struct Limits {
  size_t steps = 20'000'000;         // evaluated nodes and loop rounds: a few seconds
  size_t bytes = size_t{512} << 20;  // made by all operations together: strings, lists, output
  size_t output = size_t{64} << 20;  // of the text, and of any one string
  uint32_t depth = 400;              // of nested evaluation, macro calls included
  int64_t now = -1;                  // seconds since 1970 for strftime_now; negative: the clock
};

using Context = std::vector<std::pair<std::string, Value>>;

/// Immutable; render may be called from any thread. A copy is a reference to the same tree.
class Template {
 public:
  /// The error (bad_file) names the line.
  static Result<Template> parse(std::string_view source);

  /// Errors: what raise_exception says (invalid_argument), the use of an undefined value or another mistake of the template
  /// (invalid_argument, with the line), a limit (out_of_memory), something that is not supported.
  Result<std::string> render(const Context& context, const Limits& limits = {}) const;

 private:
  struct Tree;
  std::shared_ptr<const Tree> tree_;
};

/// A JSON text as a value; keys keep their order. Whole numbers beyond 64 bits signed become floats.
Result<Value> value_from_json(std::string_view json);

}  // namespace evros::text::jinja
