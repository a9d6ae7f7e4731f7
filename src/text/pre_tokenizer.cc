#include "text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include <algorithm>

#include "base/check.h"
#include "base/str.h"
#include "text/utf8.h"

namespace evros::text {
namespace {

constexpr size_t kMaxPatternBytes = size_t{1} << 16;
// Backtracking steps a match: published patterns need up to about three a byte (a run of spaces), hostile ones any number.
constexpr size_t kMatchSteps = 1'000'000, kMatchStepsPerByte = 16;
constexpr uint32_t kHeapLimitKiB = 64 * 1024;
constexpr size_t kJitStackMin = 32 * 1024, kJitStackMax = 1024 * 1024;

template <auto function>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    function(object);
  }
};
using Code = std::unique_ptr<pcre2_code, Free<pcre2_code_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Free<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>>;

/// \s and \S as the White_Space property: in PCRE2's Unicode mode they also take in U+180E, which is none.
std::string with_white_space(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      out.push_back(pattern[i]);
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's') {
      out.append("\\p{White_Space}");
    } else if (escaped == 'S') {
      out.append("\\P{White_Space}");
    } else {
      out.push_back('\\');
      out.push_back(escaped);
    }
  }
  return out;
}

std::string pcre2_message(int code) {
  PCRE2_UCHAR buffer[256];
  return pcre2_get_error_message(code, buffer, sizeof buffer) < 0 ? cat("error ", code)
                                                                  : std::string(reinterpret_cast<const char*>(buffer));
}

Error no_memory() { return {evros::Code::out_of_memory, "there is no memory for the pre-tokenizer"}; }

}  // namespace

struct PreTokenizer::Compiled {
  Code code;
};

Result<PreTokenizer> PreTokenizer::create(std::string_view pattern) {
  const std::string rewritten = with_white_space(pattern);
  const CompileContext context(pcre2_compile_context_create(nullptr));
  if (!context) return no_memory();
  pcre2_set_max_pattern_length(context.get(), kMaxPatternBytes);
  int failure = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten.data()), rewritten.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &failure, &offset, context.get()));
  if (!code) {
    return Error{evros::Code::bad_file, cat("the pre-tokenizer's pattern is not usable: ", pcre2_message(failure),
                                            " at byte ", offset, " of ", rewritten.substr(0, 200))};
  }
  // Without executable memory this fails, and matching falls back to the interpreter: slower, the same pieces.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  PreTokenizer out;
  out.compiled_ = std::make_shared<const Compiled>(Compiled{std::move(code)});
  return out;
}

Status PreTokenizer::split(std::string_view text, std::vector<size_t>& ends) const {
  const pcre2_code* code = compiled_->code.get();
  const MatchData data(pcre2_match_data_create_from_pattern(code, nullptr));
  const MatchContext context(pcre2_match_context_create(nullptr));
  const JitStack stack(pcre2_jit_stack_create(kJitStackMin, kJitStackMax, nullptr));
  if (!data || !context || !stack) return no_memory();
  pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  const size_t steps = std::min<size_t>(kMatchSteps + kMatchStepsPerByte * text.size(), UINT32_MAX);
  pcre2_set_match_limit(context.get(), static_cast<uint32_t>(steps));
  pcre2_set_heap_limit(context.get(), kHeapLimitKiB);
  size_t at = 0, begin = 0;  // where to look next; where the open piece begins
  const auto close = [&](size_t end) {
    if (end > begin) ends.push_back(end), begin = end;
  };
  while (at < text.size()) {
    const int matched = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                    PCRE2_NO_UTF_CHECK, data.get(), context.get());
    if (matched == PCRE2_ERROR_NOMATCH) break;
    if (matched < 0) {
      return Error{evros::Code::unsupported,
                   cat("the pre-tokenizer's pattern fails at byte ", at, " of the text: ", pcre2_message(matched))};
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    const size_t start = std::max<size_t>(range[0], begin), end = range[1];
    if (end <= at || end <= start) {  // an empty match: step over one code point, which joins the text between matches
      at += utf8_step(text.substr(at)).bytes;
      continue;
    }
    close(start);
    close(end);
    at = end;
  }
  close(text.size());
  return {};
}

namespace {

/// Below U+0300 everything is its own canonical composition, and nothing composes.
bool is_plain(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) >= 0xCC; });
}

}  // namespace

std::string to_nfc(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  static constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text.substr(at));
    at += step.bytes;
    utf8proc_int32_t decomposed[32];  // the longest canonical decomposition has 4
    const auto n =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.code_point), decomposed, 32, kOptions, nullptr);
    CHECK(n > 0 && n <= 32);
    points.insert(points.end(), decomposed, decomposed + n);
  }
  // Canonical order. The library's own loop is quadratic in the length of a run of marks, and prompts are not trusted.
  const auto mark_class = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (auto at = points.begin(); at != points.end();) {
    const auto first = std::find_if(at, points.end(), [&](auto c) { return mark_class(c) != 0; });
    at = std::find_if(first, points.end(), [&](auto c) { return mark_class(c) == 0; });
    std::stable_sort(first, at, [&](auto a, auto b) { return mark_class(a) < mark_class(b); });
  }
  const auto n = utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()), kOptions);
  CHECK(n >= 0);
  std::string out;
  out.reserve(text.size());
  for (auto i = 0; i < n; ++i) append_utf8(out, static_cast<uint32_t>(points[static_cast<size_t>(i)]));
  return out;
}

}  // namespace evros::text
