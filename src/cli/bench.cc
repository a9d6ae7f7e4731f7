// evros bench: where the time of a token goes.
#include <cstdio>

#include "base/json_writer.h"
#include "cli/arguments.h"
#include "cli/common.h"
#include "io/io.h"
#include "ops/stage_bench.h"

namespace evros::cli {
namespace {

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

double rate(const ops::PhaseTimes& phase) {
  return phase.total_ns == 0 ? 0 : static_cast<double>(phase.tokens) * 1e9 / static_cast<double>(phase.total_ns);
}

uint64_t overhead(const ops::PhaseTimes& phase) { return phase.begin_ns + phase.publish_ns + phase.finite_ns; }

void print_phase(const char* name, const ops::PhaseTimes& phase) {
  std::printf("%s: %s in %s, %.1f tokens/s\n", name, counted(phase.tokens, "token").c_str(),
              counted(phase.chunks, "chunk").c_str(), rate(phase));
  const auto line = [&](const char* what, uint64_t ns) {
    std::printf("  %-24s %9.3f ms  %5.2f %%\n", what, static_cast<double>(ns) / 1e6, share(ns, phase.total_ns));
  };
  for (const ops::StageTime& stage : phase.stages) line(stage.name.c_str(), stage.ns);
  line("begin and inputs", phase.begin_ns);
  line("status and publish", phase.publish_ns);
  line("(finite checks)", phase.finite_ns);
  line("transaction together", overhead(phase));
}

void phase_json(JsonWriter& json, const char* name, const ops::PhaseTimes& phase) {
  json.key(name).begin_object().key("tokens").value(phase.tokens).key("chunks").value(phase.chunks);
  json.key("total_ns")
      .value(phase.total_ns)
      .key("begin_ns")
      .value(phase.begin_ns)
      .key("publish_ns")
      .value(phase.publish_ns);
  json.key("finite_ns").value(phase.finite_ns).key("tokens_per_second").value(rate(phase)).key("stages").begin_object();
  for (const ops::StageTime& stage : phase.stages) json.key(stage.name).value(stage.ns);
  json.end_object().end_object();
}

void print_json(const ops::StageBench& bench, const engine::EngineInfo& info) {
  JsonWriter json(1);
  json.begin_object()
      .key("model")
      .value(info.model)
      .key("numerics")
      .value(info.numerics)
      .key("kernels")
      .value(info.kernels);
  json.key("threads").value(info.threads);
  phase_json(json, "prefill", bench.prefill);
  phase_json(json, "decode", bench.decode);
  json.key("bytes_per_token")
      .begin_object()
      .key("weights")
      .value(bench.bytes.weights)
      .key("state")
      .value(bench.bytes.state);
  json.key("transaction").value(bench.bytes.transaction).end_object().end_object();
  std::printf("%s\n", json.take().c_str());
}

}  // namespace

int bench(const BenchArguments& a) {
  const Result<std::string> path = model_path(a.model.model);
  if (!path.ok()) return fail(path.error());
  const auto engine = engine::Engine::load(io::real_io(), *path, engine_options(a.model));
  if (!engine.ok()) return fail(engine.error());
  const auto bench = ops::bench_stages(**engine, io::real_io(), a.prompt, a.decode);
  if (!bench.ok()) return fail(bench.error());
  if (a.json) {
    print_json(*bench, (*engine)->info());
    return 0;
  }
  print_phase("prefill", bench->prefill);
  print_phase("decode", bench->decode);
  const uint64_t in_place = bench->bytes.weights + bench->bytes.state;
  std::printf("bytes per token, by count: weights %s, state %s, transaction %s (%.3f %% of the others)\n",
              human_bytes(bench->bytes.weights).c_str(), human_bytes(bench->bytes.state).c_str(),
              human_bytes(bench->bytes.transaction).c_str(), share(bench->bytes.transaction, in_place));
  return 0;
}

}  // namespace evros::cli
