#include "text/jinja.h"

#include <cstdlib>
#include <ctime>

#include "text/test_data.h"

namespace evros::text::jinja {
namespace {

using testing::read_file;

Value value_of(const boost::json::value& json) {
  auto value = value_from_json(boost::json::serialize(json));
  EXPECT_TRUE(value.ok());
  return value.value();
}

std::string render(std::string_view source, const Context& context = {}, const Limits& limits = {}) {
  auto parsed = Template::parse(source);
  if (!parsed.ok()) return "error: " + parsed.error().message;
  auto text = parsed->render(context, limits);
  return text.ok() ? text.value() : "error: " + text.error().message;
}

// tests/data/jinja_golden.json comes from Jinja2 3.1.6 (tools/gen_jinja_golden.py).
TEST(Jinja, RendersWhatJinja2Renders) {
  setenv("TZ", "UTC", 1);
  tzset();
  const boost::json::value golden = boost::json::parse(read_file("tests/data/jinja_golden.json"));
  Context context;
  for (const auto& [key, value] : golden.at("context").as_object())
    context.emplace_back(std::string(key), value_of(value));
  Limits limits;
  limits.now = golden.at("now").as_int64();
  ASSERT_GE(golden.at("cases").as_array().size(), 100u);
  for (const auto& c : golden.at("cases").as_array()) {
    const std::string source = testing::str(c.at("template"));
    const std::string seen = render(source, context, limits);
    if (c.as_object().contains("error")) {
      EXPECT_TRUE(seen.starts_with("error: ")) << source << "\n" << seen;
    } else {
      EXPECT_EQ(seen, testing::str(c.at("text"))) << source;
    }
  }
}

TEST(Jinja, ErrorsNameTheLineOrTheVariable) {
  EXPECT_NE(render("a\n\n{% if %}").find("line 3"), std::string::npos) << render("a\n\n{% if %}");
  EXPECT_NE(render("{{ message.x }}").find("'message' is undefined"), std::string::npos);
  EXPECT_NE(render("{{ raise_exception('No user query.') }}").find("No user query."), std::string::npos);
  EXPECT_NE(render("{% include 'x' %}").find("include"), std::string::npos);
}

// A template is part of a file from anywhere: none of these may hang, crash or eat the machine.
TEST(Jinja, HostileTemplatesEndWithAnError) {
  Limits small;
  small.steps = 200'000;
  small.bytes = size_t{16} << 20;
  small.output = size_t{1} << 20;
  const auto nested = [](std::string open, std::string middle, std::string close) {
    std::string out;
    for (int i = 0; i < 100'000; ++i) out += open;
    out += middle;
    for (int i = 0; i < 100'000; ++i) out += close;
    return out;
  };
  std::vector<std::string> sources = {
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(a) %}{% for x in [1, 2] %}{{ f(a) }}{% endfor %}{% endmacro %}{{ f(1) }}",
      "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% "
      "endfor %}",
      "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l | "
      "tojson }}",
      "{% set ns = namespace() %}{% set ns.self = ns %}{{ ns.self.self }}",
      "{% set ns = namespace() %}{% set ns.self = [ns] %}{{ ns }}",
      "{{ 'x' * 9999999999 }}",
      "{{ [1] * 9999999999 }}",
      "{{ 9 ** 99 }}",
      "{{ 9223372036854775807 + 1 }}",
      "{{ -9223372036854775807 - 2 }}",
      "{{ (-9223372036854775807 - 1) // -1 }}",
      "{{ (-9223372036854775807 - 1) | abs }}",
      "{{ 99999999999999999999 }}",
      "{{ ('x' * 100000).replace('', 'y' * 100000) }}",
      "{{ 'x'.ljust(99999999999) }}",
      "{{ ('x\\n' * 100000) | indent('y' * 10000) }}",
      "{{ [1, [2, [3]]] | tojson(indent=9999999999) }}{{ 'x' | indent(9999999999) }}",
      "{{ [1] | batch(9999999999, 'x') }}",
      "{{ strftime_now('%c' * 1000) }}",
      "{{ range(-9223372036854775807, 9223372036854775807) }}",
      nested("(", "1", ")"),
      nested("[", "1", "]"),
      nested("{{", "1", "}}"),
      nested("{% if x %}", "", "{% endif %}"),
      nested("not ", "1", ""),
      nested("-", "1", ""),
      nested("{% for x in y %}", "", "{% endfor %}"),
      "{{ x" + nested(".a", "", "") + " }}",
      "{{ 1" + nested("+1", "", "") + " }}",
      "{{ x" + nested("|upper", "", "") + " }}",
      "{{ " + nested("(", "1", ")") + " }}",
      "{{ " + nested("not ", "1", "") + " }}",
      "{{ " + nested("-", "1", "") + " }}",
      "{{ 1" + nested(" if 1 else 1", "", "") + " }}",
      "{{ x" + nested("()", "", "") + " }}",
      "{{ x" + nested("[0]", "", "") + " }}",
      "{{ " + nested("[", "1", "]") + " }}",
      "{{ 1" + nested(" and 1", "", "") + " }}",
      "{{ 1" + nested(" is odd", "", "") + " }}",
  };
  for (const std::string& source : sources) {
    if (source.find("{{") == std::string::npos && source.find("{%") == std::string::npos) continue;
    const std::string seen = render(source, {}, small);
    EXPECT_TRUE(seen.starts_with("error: ")) << source.substr(0, 200) << "\n" << seen.substr(0, 200);
  }
  const std::string bytes = render("{{ '\xFF' }}");
  EXPECT_NE(bytes.find("byte 4"), std::string::npos) << bytes;
}

TEST(Jinja, SliceBoundsAtTheEdgesOfTheRange) {
  EXPECT_EQ(
      render("{{ 'abc'[::9223372036854775807] }}{{ 'abc'[9223372036854775807:] }}{{ 'abc'[:-9223372036854775807] }}|"),
      "a|");
  EXPECT_EQ(render("{{ 'abc'[::-9223372036854775807] }}{{ 'abc'[-9223372036854775807::-1] }}|"), "c|");
  EXPECT_EQ(render("{{ [1, 2][(-9223372036854775807 - 1)::(-9223372036854775807 - 1)] }}|"), "[]|");
}

TEST(Jinja, JsonValues) {
  EXPECT_EQ(render("{{ v | tojson }}", {{"v", value_from_json(R"({"b":[1,2.0,-3e2,null,true],"a":"ü\n"})").value()}}),
            R"({"b": [1, 2.0, -300.0, null, true], "a": "ü\n"})");
  EXPECT_FALSE(value_from_json("{").ok());
  EXPECT_FALSE(value_from_json(std::string(200, '[') + std::string(200, ']')).ok());
}

}  // namespace
}  // namespace evros::text::jinja
