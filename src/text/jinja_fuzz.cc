// Any bytes as a template, rendered with a small conversation and small limits.
#include "base/check.h"
#include "text/jinja.h"
#include "text/utf8.h"

using namespace evros::text;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const jinja::Context kContext = [] {
    jinja::Context context;
    const auto value = jinja::value_from_json(
        R"({"messages":[{"role":"system","content":" s "},{"role":"user","content":[{"text":"ü🙂"}]},
            {"role":"assistant","content":"a</think>b","tool_calls":[{"name":"f","arguments":{"x":1,"y":[2.5,null]}}]}],
            "tools":[{"function":{"name":"f"}}],"n":7,"s":"abc","add_generation_prompt":true})");
    for (const auto& [key, item] : value.value().as_map().entries) context.emplace_back(key, item);
    return context;
  }();
  const auto parsed = jinja::Template::parse({reinterpret_cast<const char*>(bytes), size});
  if (!parsed.ok()) return 0;
  jinja::Limits limits;
  limits.steps = 20'000;
  limits.bytes = size_t{4} << 20;
  limits.output = size_t{1} << 18;
  limits.now = 0;
  const auto text = parsed->render(kContext, limits);
  if (text.ok()) CHECK(text->size() <= limits.output && !find_invalid_utf8(text.value()));
  return 0;
}
