#include "cli/speed_table.h"

#include <cstdio>

#include "base/json_writer.h"
#include "base/str.h"
#include "cli/common.h"

namespace evros::cli {
namespace {

using ops::median;

void print_limits(const ops::SpeedReport& r) {
  if (r.own_memory) {
    std::printf("the device copies %.1f GB/s before, %.1f GB/s after, read and written bytes together\n",
                r.before.all / 1e9, r.after.all / 1e9);
    return;
  }
  const auto line = [](const char* when, const ops::SpeedReport::Reading& reading, int threads) {
    std::printf("reading memory %s: %.1f GB/s with 1 thread, %.1f GB/s with %d (%.2f x)\n", when, reading.one / 1e9,
                reading.all / 1e9, threads, reading.all / reading.one);
  };
  line("before", r.before, r.threads);
  line("after", r.after, r.threads);
  std::printf("8-bit products (%s): %.0f GOP/s with %d\n", ops::MachineLimits::int8_kernel(), r.int8_rate / 1e9,
              r.threads);
  if (!r.beyond_cache) {
    std::printf("(the buffer that was read has %s, not four times the %s of cache: the limit may be too high)\n",
                human_bytes(r.buffer_bytes).c_str(), human_bytes(r.cache_bytes).c_str());
  }
}

void print_together(const ops::Together& t) {
  std::printf("%d texts together, at %lld tokens: %.1f tokens/s, %.2f x one alone (%.1f); %.1f experts a layer\n",
              t.sequences, static_cast<long long>(t.context), median(t.all), t.speedup(), median(t.single), t.experts);
  std::printf("  bound %.2f x = %d x %s / %s of their union; reached %.1f %% of it\n", t.bound(), t.sequences,
              human_bytes(static_cast<uint64_t>(t.bytes_single)).c_str(),
              human_bytes(static_cast<uint64_t>(t.bytes_union)).c_str(), 100 * t.speedup() / t.bound());
}

void rounds_json(JsonWriter& json, const char* name, const ops::Rounds& rounds) {
  json.key(name).begin_object().key("median").value(median(rounds)).key("rounds").begin_array();
  for (const double value : rounds) json.value(value);
  json.end_array().end_object();
}

void point_json(JsonWriter& json, const ops::SpeedPoint& p) {
  json.begin_object().key("context").value(p.context).key("prompt").value(p.prompt);
  rounds_json(json, "prefill_tokens_per_second", p.prefill);
  rounds_json(json, "integer_share", p.integer_share);
  rounds_json(json, "decode_tokens_per_second", p.decode);
  rounds_json(json, "memory_share", p.memory_share);
  json.key("bytes_per_token").begin_object().key("weights").value(p.bytes.weights);
  json.key("state").value(p.bytes.state).end_object().end_object();
}

void together_json(JsonWriter& json, const ops::Together& t) {
  json.key("together").begin_object().key("sequences").value(t.sequences).key("context").value(t.context);
  rounds_json(json, "single_tokens_per_second", t.single);
  rounds_json(json, "all_tokens_per_second", t.all);
  json.key("experts_per_layer").value(t.experts).key("bytes_single").value(t.bytes_single);
  json.key("bytes_union").value(t.bytes_union).key("bound").value(t.bound()).key("speedup").value(t.speedup());
  json.key("share_of_bound").value(t.speedup() / t.bound()).end_object();
}

}  // namespace

void print_speed(const ops::SpeedReport& r, const engine::EngineInfo& info) {
  std::printf("%s; %s, %s on %s, %s; median of %s\n", printable(info.model).c_str(), info.numerics.c_str(),
              info.kernels.c_str(), info.device.c_str(), counted(static_cast<uint64_t>(info.threads), "thread").c_str(),
              counted(static_cast<uint64_t>(r.rounds), "round").c_str());
  print_limits(r);
  std::printf("%9s  %15s %12s  %14s %10s %13s\n", "context", "prefill tok/s", "of integer", "decode tok/s", "of memory",
              "bytes/token");
  for (const ops::SpeedPoint& p : r.points) {
    std::printf("%9lld  %15.1f %10.1f %%  %14.1f %8.1f %% %13s\n", static_cast<long long>(p.context), median(p.prefill),
                100 * median(p.integer_share), median(p.decode), 100 * median(p.memory_share),
                human_bytes(p.bytes.weights + p.bytes.state).c_str());
  }
  if (r.together) print_together(*r.together);
  for (const std::string& sentence : r.left_out) std::printf("left out: %s\n", sentence.c_str());
  if (const std::string why = r.why_not(); !why.empty()) std::printf("This run does not count: %s.\n", why.c_str());
}

void print_speed_json(const ops::SpeedReport& r, const engine::EngineInfo& info) {
  JsonWriter json(1);
  json.begin_object().key("model").value(info.model).key("numerics").value(info.numerics);
  json.key("kernels")
      .value(info.kernels)
      .key("device")
      .value(info.device)
      .key("threads")
      .value(info.threads)
      .key("rounds")
      .value(r.rounds);
  json.key("counts").value(r.why_not().empty()).key("why_not").value(r.why_not());
  json.key("machine").begin_object();
  for (const auto& [reading, when] : {std::pair(r.before, "before"), std::pair(r.after, "after")}) {
    json.key(cat("read_", when)).begin_object().key("one").value(reading.one);
    json.key("all").value(reading.all).end_object();
  }
  rounds_json(json, "read", r.reading);
  json.key("int8_kernel").value(ops::MachineLimits::int8_kernel()).key("int8_operations").value(r.int8_rate);
  json.key("buffer_bytes").value(r.buffer_bytes).key("cache_bytes").value(r.cache_bytes).end_object();
  json.key("operations_per_token").value(r.operations).key("points").begin_array();
  for (const ops::SpeedPoint& p : r.points) point_json(json, p);
  json.end_array();
  if (r.together) together_json(json, *r.together);
  json.key("left_out").begin_array();
  for (const std::string& sentence : r.left_out) json.value(sentence);
  std::printf("%s\n", json.end_array().end_object().take().c_str());
}

void print_speed_csv(const ops::SpeedReport& r) {
  std::printf(
      "context,prompt,prefill_tokens_per_second,integer_share,decode_tokens_per_second,memory_share,bytes_per_token,"
      "counts\n");
  for (const ops::SpeedPoint& p : r.points) {
    std::printf("%lld,%lld,%.4f,%.5f,%.4f,%.5f,%llu,%d\n", static_cast<long long>(p.context),
                static_cast<long long>(p.prompt), median(p.prefill), median(p.integer_share), median(p.decode),
                median(p.memory_share), static_cast<unsigned long long>(p.bytes.weights + p.bytes.state),
                r.why_not().empty() ? 1 : 0);
  }
  std::fflush(stdout);  // the table is for programs, what is not in it for people
  for (const std::string& sentence : r.left_out) std::fprintf(stderr, "evros: left out: %s\n", sentence.c_str());
}

}  // namespace evros::cli
