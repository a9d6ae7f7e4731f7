#include "ops/verify.h"

#include <algorithm>

#include "base/rng.h"
#include "base/str.h"
#include "engine/devices.h"
#include "ops/verify_run.h"
#include "ops/verify_texts.h"
#include "sim/faulty_device.h"
#include "sim/faulty_io.h"
#include "sim/oracle.h"

namespace evros::ops {
namespace {

// What all checks together run, in tokens for each token of a text; measured on the bundled model, with room.
constexpr double kTokensPerToken = 40;
constexpr int64_t kShortest = 24, kLongest = 2048;
// Another engine beside the first is loaded only when its weights are small.
constexpr uint64_t kSecondEngineBytes = uint64_t{4} << 30;
constexpr size_t kFaultTokens = 3;

/// For texts of so many tokens, which are also run in one chunk; the n-gram table gets the memory that this takes.
engine::EngineOptions sized(const format::ModelFile& file, engine::EngineOptions options, int64_t tokens) {
  options.sessions = kVerifySessions;
  options.batch = kVerifyBatch;
  options.checkpoints = 1;
  options.context = tokens + 16;
  options.chunk = static_cast<int32_t>(std::max<int64_t>(tokens, kVerifyBatch));
  options.table.memory_bytes = std::max(options.table.memory_bytes, engine::table_memory_of_chunk(file, options));
  return options;
}

/// Tokens from which the attention of every full layer is sparse; 0 when none ever is.
int64_t sparse_length(const format::HyperParams& h) {
  int64_t most = 0;
  for (int32_t i = 0; i < h.layers; ++i) {
    const int32_t ratio = h.compress_ratio[static_cast<size_t>(i)];
    if (ratio > 0) most = std::max<int64_t>(most, int64_t{model::kept_blocks(h, i)} * ratio + 2 * ratio);
  }
  return most;
}

// An engine whose surroundings can be made to fail; they are well behaved until the faults are armed.
struct Surroundings {
  Surroundings(io::Io& inner, const VerifyOptions& asked) : io(inner, faults), verify(asked) {}
  Result<std::unique_ptr<engine::Engine>> load(const std::string& path, const engine::EngineOptions& options) {
    EVROS_ASSIGN(auto device, verify.open ? verify.open() : engine::open_device(options));
    return engine::Engine::load(io, std::make_unique<sim::FaultyDevice>(std::move(device), faults), path, options);
  }
  sim::Faults faults;
  sim::FaultyIo io;
  const VerifyOptions& verify;
};

// What was asked for as the length of a text, if a text can have it.
Status check_length(const format::ModelFile& file, int64_t tokens) {
  const int64_t most = file.hyper().context_length - 16, least = std::min(kShortest, most);
  if (tokens == 0 || (tokens >= least && tokens <= most)) return {};
  return Error{Code::invalid_argument, cat("texts of ", tokens, " tokens were asked for; with ", file.path(),
                                           " they have ", least, " to ", most)};
}

// The longest text that the budget allows, at least far enough for the sparse attention when that is possible.
Result<int64_t> choose_length(io::Io& io, const format::ModelFile& file, const VerifyOptions& options, VerifyRun& run) {
  Surroundings around(io, options);
  EVROS_ASSIGN(const auto engine, around.load(file.path(), sized(file, options.engine, kShortest)));
  const format::HyperParams& h = engine->model().hyper;
  run.use(*engine);
  if (options.tokens > 0) return options.tokens;
  const double before = run.seconds();
  EVROS_ASSIGN(const auto digests, run.solo(verify_text(h, options.seed, 0, kShortest), repeated_cuts({1}, kShortest)));
  const double per_token = (run.seconds() - before) / kShortest;
  const double budget = std::max(options.budget_seconds - run.seconds(), 0.0) * 0.6;
  const auto affordable = static_cast<int64_t>(budget / (kTokensPerToken * std::max(per_token, 1e-7)));
  const int64_t sparse = sparse_length(h);
  const int64_t most = std::min(h.context_length - 16, sparse > 0 ? sparse + 16 : kLongest);
  const int64_t length = std::clamp(affordable, std::min(kShortest, most), std::max<int64_t>(most, 1));
  if (sparse > 0 && length <= sparse) {
    run.skip("sparse attention", "S3", cat("texts of ", length, " tokens fit the budget, it begins after ", sparse));
  }
  return length;
}

void check_tables(VerifyRun& run, io::Io& io, const std::string& path, const std::vector<int32_t>& text) {
  const engine::EngineInfo& info = run.engine().info();
  const char* name = "threads and instruction sets";
  if (info.plan.weight_bytes > kSecondEngineBytes) {
    run.skip(name, "S3", "it would load the weights a second time");
    return;
  }
  run.check(name, "S3", [&](VerifyRow& row) -> Status {
    EVROS_ASSIGN(const auto wanted, run.solo(text));
    engine::Engine& first = run.engine();
    for (const kernels::Kernels* table : kernels::host_tables()) {
      for (const int threads : {1, 2, 3}) {
        if (run.out_of_time()) break;
        engine::EngineOptions options = sized(first.file(), run.options().engine, static_cast<int64_t>(text.size()));
        options.kernels = table->name;
        options.device = "cpu";
        options.threads = threads;
        const auto other = engine::Engine::load(io, path, options);
        if (!other.ok()) return other.error();
        run.use(**other);
        const auto seen = run.solo(text);
        run.use(first);
        if (!seen.ok()) return seen.error();
        run.compare(row, *seen, wanted, cat(table->name, " on ", threads, " threads"));
      }
    }
    return {};
  });
}

sim::Operation append_operation(const std::vector<int32_t>& tokens) {
  sim::Operation operation;
  operation.name = "append";
  operation.retried = true;
  operation.run = [tokens](sim::World& world, std::span<const size_t> which) {
    const engine::Observer observer = [&](const model::Pass&, const model::Stage*) -> Status {
      if (world.faults->fires(sim::FaultKind::observe)) return Error{Code::cancelled, "the observer stops here"};
      return {};
    };
    const engine::ChunkRow row{world.sessions[which[0]], tokens};
    return world.engine->run_chunk({&row, 1}, {.cancel = &world.faults->cancel_flag(), .observer = &observer});
  };
  return operation;
}

// A random sample of the faults of a chunk, until the time is over.
void check_faults(VerifyRun& run, sim::Faults& faults, const std::vector<int32_t>& text) {
  run.check("a sample of the faults of a chunk", "S2 S6 S7", [&](VerifyRow& row) -> Status {
    const Scoped session(run.engine(), run.engine().open());
    EVROS_TRY(session.status());
    const size_t start = std::min<size_t>(text.size() - kFaultTokens, 21);
    EVROS_TRY(run.engine().append(session.id(), std::span(text).first(start)));
    const auto next = std::span(text).subspan(start, kFaultTokens);
    const sim::World world{&run.engine(), &faults, {session.id()}, {}};
    sim::Oracle oracle(world);
    const sim::Operation operation = append_operation({next.begin(), next.end()});
    const bool learned = oracle.learn(operation);
    const std::vector<sim::FaultPlan> kinds = sim::chunk_faults();
    const double until = run.seconds() + std::max(1.0, 0.15 * run.options().budget_seconds);
    for (uint64_t i = 0; learned && run.seconds() < until && oracle.findings().empty(); ++i) {
      sim::FaultPlan plan = kinds[i % kinds.size()];
      const uint64_t count = oracle.occurrences(plan.kind);
      if (count == 0) continue;
      plan.at = static_cast<uint64_t>(uniform(run.options().seed, 9, i) * static_cast<double>(count));
      oracle.trial(operation, plan);
    }
    row.cases = oracle.totals().injected;
    run.report().faults = oracle.totals().injected;
    run.report().faults_unchanged = oracle.totals().unchanged;
    if (!oracle.findings().empty()) return Error{Code::device, oracle.findings()[0]};
    return {};
  });
}

// The same model on the CPU when the engine is not there, or null: what it says is then what is wanted.
Result<std::unique_ptr<engine::Engine>> load_cpu(VerifyRun& run, io::Io& io, const std::string& path,
                                                 const engine::Engine& engine, int64_t n) {
  if (engine.device().host_addressable()) {
    run.skip("CUDA", "S3", "it ran on the CPU; --device cuda compares a GPU with it");
    return std::unique_ptr<engine::Engine>();
  }
  if (engine.info().plan.weight_bytes > kSecondEngineBytes) {
    run.skip("the CPU's bits", "S3", "it would load the weights a second time");
    return std::unique_ptr<engine::Engine>();
  }
  engine::EngineOptions options = sized(engine.file(), run.options().engine, n);
  options.device = "cpu";
  options.kernels.clear();
  return engine::Engine::load(io, path, options);
}

// Runs every check on texts of `n` tokens.
Status run_checks(VerifyRun& run, io::Io& io, const format::ModelFile& file, int64_t n) {
  Surroundings around(io, run.options());
  EVROS_ASSIGN(const auto engine, around.load(file.path(), sized(file, run.options().engine, n)));
  EVROS_ASSIGN(const auto cpu, load_cpu(run, io, file.path(), *engine, n));
  run.use(*engine);
  VerifyReport& report = run.report();
  report.model = engine->info().model;
  report.numerics = engine->info().numerics;
  report.kernels = engine->info().kernels;
  report.device = engine->info().device;
  report.tokens = n;
  EVROS_ASSIGN(report.identity, engine->model_identity());
  Texts texts;
  std::vector<engine::Digests> wanted;
  for (uint32_t i = 0; i < 2; ++i) {
    texts.push_back(verify_text(engine->model().hyper, run.options().seed, i, n - 3 * static_cast<int64_t>(i)));
    run.use(cpu == nullptr ? *engine : *cpu);
    auto digests = run.solo(texts.back());
    run.use(*engine);
    if (!digests.ok()) return digests.error();
    wanted.push_back(std::move(*digests));
  }
  report.digests = wanted[0];
  if (cpu != nullptr) {
    EVROS_ASSIGN(report.digests, run.solo(texts[0]));  // what this device makes of the text
    verify_devices(run, *cpu, texts, wanted);
  }
  check_faults(run, around.faults, texts[0]);
  verify_operations(run, texts, wanted);
  verify_partitions(run, texts, wanted);
  texts[0].resize(std::min<size_t>(texts[0].size(), kShortest));
  check_tables(run, io, file.path(), texts[0]);
  return {};
}

}  // namespace

bool VerifyReport::passed() const {
  const auto any = [&](Outcome outcome) {
    return std::any_of(rows.begin(), rows.end(), [&](const VerifyRow& row) { return row.outcome == outcome; });
  };
  return any(Outcome::passed) && !any(Outcome::failed);
}

Result<VerifyReport> verify(io::Io& io, const std::string& path, const VerifyOptions& options,
                            const Progress& progress) {
  VerifyReport report;
  VerifyRun run(io, options, report, progress);
  EVROS_ASSIGN(const auto file, format::open_model(io, path));
  EVROS_TRY(check_length(*file, options.tokens));
  EVROS_ASSIGN(const int64_t length, choose_length(io, *file, options, run));
  EVROS_TRY(run_checks(run, io, *file, length));
  report.seconds = run.seconds();
  evros::report(progress, 1000, 1000);
  return report;
}

}  // namespace evros::ops
