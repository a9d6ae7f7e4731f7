// Everything the engine does, on a device whose memory the host cannot touch: what reads or writes it by pointer instead of
// through the device ends the process. Results are those of the host, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/str.h"
#include "engine/engine.h"
#include "io/memory_io.h"
#include "ops/perplexity.h"
#include "ops/speed_bench.h"
#include "ops/stage_bench.h"
#include "ops/trace.h"
#include "ops/verify.h"
#include "sim/remote_testing.h"

namespace evros::tests {
namespace {

using engine::Engine;

std::string micro(const std::string& type) { return cat(EVROS_BINARY_DIR, "/micro/gguf/micro-", type, ".gguf"); }

std::vector<int32_t> text(int32_t n, int32_t seed) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < n; ++i) ids.push_back((i * 41 + seed * 13 + 2) % 500);
  return ids;
}

engine::EngineOptions options(const std::string& kv) {
  engine::EngineOptions made;
  made.kv = kv;
  made.threads = 1;
  made.context = 256;
  made.sessions = 6;
  made.batch = 3;
  made.chunk = 16;
  made.checkpoints = 2;
  return made;
}

std::unique_ptr<Engine> load(bool remote, const std::string& path, const engine::EngineOptions& options) {
  std::unique_ptr<device::Device> device = device::make_host_device(1);
  if (remote) device = std::make_unique<sim::RemoteDevice>(1);
  auto made = Engine::load(io::real_io(), std::move(device), path, options);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return std::move(made).value();
}

std::string digests(Engine& engine, engine::SessionId session) {
  const auto seen = engine.digests(session);
  EXPECT_TRUE(seen.ok()) << (seen.ok() ? "" : seen.error().message);
  std::string all;
  for (const auto& entry : seen->owners) all += cat(entry.owner, " ", entry.hex, "\n");
  std::vector<float> logits(static_cast<size_t>(engine.model().hyper.vocab));
  EXPECT_TRUE(engine.logits(session, logits).ok());
  all += hex(digest(std::as_bytes(std::span(logits))));
  return all;
}

/// What every operation leaves behind, as lines that must be the same on every device.
std::vector<std::string> story(Engine& engine) {
  std::vector<std::string> seen;
  const engine::SessionId a = *engine.open(), b = *engine.open();
  EXPECT_TRUE(engine.append(a, text(45, 1)).ok());
  seen.push_back(digests(engine, a));
  const auto checkpoint = engine.checkpoint(a);
  EXPECT_TRUE(checkpoint.ok());
  const engine::SessionId fork = *engine.fork(a);
  EXPECT_TRUE(engine.append(b, text(7, 2)).ok());
  const std::vector<int32_t> one = text(1, 3), five = text(5, 4), three = text(3, 5);
  const std::vector<engine::ChunkRow> rows{{a, one}, {b, five}, {fork, three}};
  const auto statuses = engine.run_chunk(rows);
  EXPECT_TRUE(statuses.ok());
  for (const engine::SessionId session : {a, b, fork}) seen.push_back(digests(engine, session));
  EXPECT_TRUE(engine.rewind(a, 46).ok());
  EXPECT_TRUE(engine.rewind(a, 20).ok());
  seen.push_back(digests(engine, a));
  EXPECT_TRUE(engine.rewrite(b, 4, text(30, 6)).ok());
  seen.push_back(digests(engine, b));
  io::MemoryIo files;
  EXPECT_TRUE(engine.save(files, b, "talk.evros", "words").ok());
  const auto restored = engine.restore(files, "talk.evros");
  EXPECT_TRUE(restored.ok());
  EXPECT_TRUE(engine.append(restored->session, text(20, 7)).ok());
  seen.push_back(digests(engine, restored->session));
  EXPECT_TRUE(engine.reset(a).ok());
  EXPECT_TRUE(engine.append(a, text(2, 8)).ok());
  seen.push_back(digests(engine, a));
  return seen;
}

TEST(RemoteDevice, EveryOperationGivesTheBitsOfTheHost) {
  for (const char* type : {"f32", "q8_0", "q4_0"}) {
    for (const char* kv : {"f32", "f16", "bf16"}) {
      const auto remote = load(true, micro(type), options(kv)), host = load(false, micro(type), options(kv));
      EXPECT_EQ(story(*remote), story(*host)) << type << ' ' << kv;
      EXPECT_EQ(remote->info().device, "remote");
    }
  }
}

TEST(RemoteDevice, ASnapshotGoesFromOneDeviceToTheOtherAndOn) {
  for (const bool from_remote : {false, true}) {
    const auto from = load(from_remote, micro("q8_0"), options("f16"));
    const auto to = load(!from_remote, micro("q8_0"), options("f16"));
    io::MemoryIo files;
    const engine::SessionId session = *from->open();
    ASSERT_TRUE(from->append(session, text(77, 1)).ok());
    ASSERT_TRUE(from->save(files, session, "talk.evros").ok());
    const auto restored = to->restore(files, "talk.evros");
    ASSERT_TRUE(restored.ok());
    EXPECT_EQ(digests(*to, restored->session), digests(*from, session));
    ASSERT_TRUE(to->append(restored->session, text(9, 2)).ok());
    ASSERT_TRUE(from->append(session, text(9, 2)).ok());
    EXPECT_EQ(digests(*to, restored->session), digests(*from, session));
  }
}

TEST(RemoteDevice, TraceAndPerplexityReadThroughTheDevice) {
  const std::vector<int32_t> tokens = text(40, 3);
  std::vector<ops::Trace> traces;
  std::vector<double> nats;
  for (const bool remote : {true, false}) {
    const auto engine = load(remote, micro("f32"), ops::trace_options(options("f16"), 16));
    const std::vector<int64_t> cuts{16, 3};
    auto trace = ops::run_trace(*engine, *engine->open(), tokens, cuts, "a");
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    traces.push_back(std::move(*trace));
    ops::PerplexityOptions window;
    window.window = 20;
    const auto report = ops::measure_perplexity(*engine, io::real_io(), tokens, window, {});
    ASSERT_TRUE(report.ok()) << report.error().message;
    nats.push_back(report->nats);
  }
  EXPECT_EQ(nats[0], nats[1]);
  ASSERT_EQ(traces[0].size(), traces[1].size());
  for (const auto& [name, tensor] : traces[0]) EXPECT_EQ(tensor.data, traces[1].at(name).data) << name;
}

TEST(RemoteDevice, BenchesReadThroughTheDevice) {
  engine::EngineOptions asked = options("f16");
  {
    auto watch = std::make_unique<ops::TimedDevice>(std::make_unique<sim::RemoteDevice>(1),
                                                    kernels::best_host_kernels(), io::real_io());
    ops::TimedDevice* const timed = watch.get();
    const auto stages = Engine::load(io::real_io(), std::move(watch), micro("q8_0"), asked);
    ASSERT_TRUE(stages.ok()) << stages.error().message;
    const auto times = ops::bench_stages(**stages, io::real_io(), 20, 3, timed);
    ASSERT_TRUE(times.ok()) << times.error().message;
    EXPECT_EQ(times->decode.tokens, 3u);
    const auto delta = std::find_if(times->kernels.begin(), times->kernels.end(),
                                    [](const ops::KernelTime& time) { return time.name == "gdn_delta"; });
    ASSERT_NE(delta, times->kernels.end());
    const auto& kinds = (*stages)->model().hyper.layer_kind;
    const auto linear = std::count(kinds.begin(), kinds.end(), format::LayerKind::linear);
    EXPECT_EQ(delta->calls, 3u * static_cast<uint64_t>(linear)) << "three tokens, each linear layer once";
  }
  const ops::SpeedOptions speed{.contexts = {32},
                                .prompt = 16,
                                .decode = 4,
                                .rounds = 1,
                                .sequences = 2,
                                .budget_seconds = 60,
                                .copy_bytes = 1 << 20};
  const auto engine = load(true, micro("q8_0"), ops::speed_options(asked, speed));
  const auto report = ops::bench_speed(*engine, io::real_io(), speed, {});
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->own_memory);
  EXPECT_GT(report->before.all, 0);
  EXPECT_GT(report->together->experts, 0);
}

// What `evros verify --device cuda` does, with the CPU's kernels behind memory that is not the host's.
TEST(RemoteDevice, VerifyComparesItWithTheCpu) {
  ops::VerifyOptions asked;
  asked.engine.threads = 1;
  asked.budget_seconds = 100;
  asked.tokens = 40;
  asked.open = [] { return Result<std::unique_ptr<device::Device>>(std::make_unique<sim::RemoteDevice>(1)); };
  const auto report = ops::verify(io::real_io(), micro("q8_0"), asked, {});
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->passed());
  EXPECT_EQ(report->device, "remote");
  for (const char* wanted : {"every owner, CPU and remote", "every logit, CPU and remote",
                             "a snapshot moves, CPU and remote", "threads and instruction sets"}) {
    const auto found = std::find_if(report->rows.begin(), report->rows.end(),
                                    [&](const ops::VerifyRow& row) { return row.check == wanted; });
    ASSERT_NE(found, report->rows.end()) << wanted;
    EXPECT_EQ(found->outcome, ops::Outcome::passed) << wanted << ": " << found->note;
    EXPECT_GT(found->cases, 0u) << wanted;
  }
}

// The reason why this device exists: without this, the tests above would prove nothing.
TEST(RemoteDeviceDeathTest, AStrayReadEndsTheProcess) {
  sim::RemoteDevice device(1);
  auto memory = device.allocate(64, "a stray read");
  ASSERT_TRUE(memory.ok());
  ASSERT_TRUE(device.fill(memory->data(), 1, 64).ok());
  EXPECT_DEATH({ EXPECT_EQ(static_cast<int>(*memory->data()), 1); }, "");
}

}  // namespace
}  // namespace evros::tests
