// evros bench: how fast, and where the time of a token goes.
#include <cstdio>

#include "base/json_writer.h"
#include "base/str.h"
#include "cli/arguments.h"
#include "cli/common.h"
#include "cli/speed_table.h"
#include "engine/devices.h"
#include "io/io.h"
#include "ops/kernel_times.h"
#include "ops/speed_bench.h"
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

void print_kernels(const std::vector<ops::KernelTime>& kernels) {
  uint64_t all = 0;
  for (const ops::KernelTime& kernel : kernels) all += kernel.ns;
  std::printf("kernels, each waited for, most expensive first\n");
  for (const ops::KernelTime& kernel : kernels) {
    std::printf("  %-24s %9.3f ms  %5.2f %%  %8llu calls\n", kernel.name.c_str(), static_cast<double>(kernel.ns) / 1e6,
                share(kernel.ns, all), static_cast<unsigned long long>(kernel.calls));
  }
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
      .value(info.kernels)
      .key("device")
      .value(info.device);
  json.key("threads").value(info.threads);
  phase_json(json, "prefill", bench.prefill);
  phase_json(json, "decode", bench.decode);
  json.key("kernel_ns").begin_object();
  for (const ops::KernelTime& kernel : bench.kernels) json.key(kernel.name).value(kernel.ns);
  json.end_object();
  json.key("bytes_per_token")
      .begin_object()
      .key("weights")
      .value(bench.bytes.weights)
      .key("state")
      .value(bench.bytes.state);
  json.key("transaction").value(bench.bytes.transaction).end_object().end_object();
  std::printf("%s\n", json.take().c_str());
}

int bench_stages(const BenchArguments& a, const std::string& path) {
  const engine::EngineOptions options = engine_options(a.model);
  auto device = engine::open_device(options);
  if (!device.ok()) return fail(device.error());
  const auto table = engine::choose_kernels(**device, options.kernels);
  if (!table.ok()) return fail(table.error());
  auto watch = std::make_unique<ops::TimedDevice>(std::move(*device), **table, io::real_io());
  ops::TimedDevice* const timed = watch.get();
  const auto engine = load_engine(path, options, false, std::move(watch));
  if (!engine.ok()) return fail(engine.error());
  const auto bench = ops::bench_stages(**engine, io::real_io(), a.prompt, a.decode, timed);
  if (!bench.ok()) return fail(bench.error());
  if (a.json) {
    print_json(*bench, (*engine)->info());
    return 0;
  }
  print_phase("prefill", bench->prefill);
  print_phase("decode", bench->decode);
  print_kernels(bench->kernels);
  const uint64_t in_place = bench->bytes.weights + bench->bytes.state;
  std::printf("bytes per token, by count: weights %s, state %s, transaction %s (%.3f %% of the others)\n",
              human_bytes(bench->bytes.weights).c_str(), human_bytes(bench->bytes.state).c_str(),
              human_bytes(bench->bytes.transaction).c_str(), share(bench->bytes.transaction, in_place));
  return 0;
}

Status write_plot(io::Io& io, const std::string& path, const std::string& picture) {
  const std::string partial = path + ".partial";
  EVROS_ASSIGN(const std::unique_ptr<io::File> file, io.create(partial));
  EVROS_TRY(file->write_at(0, std::as_bytes(std::span(picture))));
  EVROS_TRY(file->sync());
  return io.rename(partial, path);
}

int bench_speed(const BenchArguments& a, const std::string& path) {
  io::Io& io = io::real_io();
  if (!a.plot.empty()) {
    if (const Status target = io.check_target(a.plot); !target.ok()) return fail(target.error());
  }
  ops::SpeedOptions options{.contexts = a.contexts,
                            .prompt = a.prompt,
                            .decode = a.decode,
                            .rounds = a.rounds,
                            .sequences = a.sequences,
                            .budget_seconds = a.budget};
  const engine::EngineOptions asked = engine_options(a.model);
  const auto left_out = ops::fit_contexts(io, path, asked, options);
  if (!left_out.ok()) return fail(left_out.error());
  const auto engine = load_engine(path, ops::speed_options(asked, options), false);
  if (!engine.ok()) return fail(engine.error());
  auto report = ops::bench_speed(**engine, io, options, {});
  if (!report.ok()) return fail(report.error());
  report->left_out.insert(report->left_out.begin(), left_out->begin(), left_out->end());
  const engine::EngineInfo& info = (*engine)->info();
  if (!a.plot.empty()) {
    const std::string title = cat(printable(info.model), "; ", info.numerics, ", ", info.kernels, ", ",
                                  counted(static_cast<uint64_t>(info.threads), "thread"));
    if (const Status drawn = write_plot(io, a.plot, ops::speed_plot(*report, title)); !drawn.ok())
      return fail(drawn.error());
  }
  if (a.json)
    print_speed_json(*report, info);
  else if (a.csv)
    print_speed_csv(*report);
  else
    print_speed(*report, info);
  return 0;
}

}  // namespace

int bench(const BenchArguments& a) {
  const Result<std::string> path = model_path(a.model.model);
  if (!path.ok()) return fail(path.error());
  return a.stages ? bench_stages(a, *path) : bench_speed(a, *path);
}

}  // namespace evros::cli
