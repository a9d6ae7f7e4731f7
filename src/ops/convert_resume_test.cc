// Conversions that were stopped: gone on with where the work is the same, begun anew where it is not.
#include "format/importance.h"
#include "format/random_checkpoint.h"
#include "io/memory_io.h"
#include "ops/convert.h"
#include "ops/test_model_files.h"

namespace evros::ops {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)
using format::TensorType;
using format::test::RandomCheckpoint;

/// A conversion of one small model that can be gone on with.
struct Resumable {
  io::MemoryIo memory;
  ConvertOptions options = {TensorType::q8_0, "", true};
  Resumable() {
    RandomCheckpoint checkpoint;
    checkpoint.layers = "L", checkpoint.ple_layers = {0}, checkpoint.num_experts = 3, checkpoint.hidden_size = 32;
    checkpoint.write(memory, "in/model");
    options.resume = true;
  }
  /// What a conversion in one go writes.
  std::string wanted() {
    ConvertOptions at_once = options;
    at_once.resume = false;
    EXPECT_TRUE(convert(memory, "in/model", "at_once.gguf", at_once, {}).ok());
    return memory.get("at_once.gguf");
  }
  /// Stops at the `n`-th change of a file; how many changes a whole conversion makes for a negative one.
  int64_t stop_at(int64_t n) {
    FailingIo io(memory);
    io.fail_at = n;
    const auto done = convert(io, "in/model", "out/m.gguf", options, {});
    EXPECT_EQ(done.ok(), n < 0);
    if (!done.ok()) {
      EXPECT_NE(done.error().message.find("made to fail"), std::string::npos);
    }
    return io.changes;
  }
  /// The changes that were left to make.
  int64_t go_on() { return stop_at(-1); }
};

TEST(ConvertResume, GoesOnWhereItWasStoppedAndWritesTheSameFile) {
  const int64_t steps = Resumable().stop_at(-1);
  const std::string wanted = Resumable().wanted();
  ASSERT_GT(steps, 40);
  for (int64_t n = 0; n + 2 < steps; ++n) {  // the last two: rename, flush of the folder
    Resumable r;
    r.stop_at(n);
    EXPECT_FALSE(r.memory.exists("out/m.gguf")) << n;
    const int64_t left = r.go_on();
    EXPECT_EQ(r.memory.get("out/m.gguf"), wanted) << n;
    EXPECT_EQ(*r.memory.list("out"), std::vector<std::string>{"m.gguf"}) << n;
    if (n > steps / 2 && n + 4 < steps) {       // at the very end there is no mark any more
      EXPECT_LT(left, steps - steps / 3) << n;  // not from the start
    }
  }
}

TEST(ConvertResume, WorkThatIsStoppedIsGoneOnWithOrLeavesNothing) {
  const int64_t steps = Resumable().stop_at(-1);
  const std::string wanted = Resumable().wanted();
  for (const bool resume : {false, true}) {
    for (const uint64_t percent : {uint64_t{0}, uint64_t{50}, uint64_t{90}}) {
      Resumable r;
      std::atomic<bool> stop{false};
      r.options.resume = resume, r.options.stop = &stop;
      const auto done = convert(r.memory, "in/model", "out/m.gguf", r.options, [&](uint64_t so_far, uint64_t total) {
        if (so_far * 100 > total * percent) stop = true;
      });
      ASSERT_FALSE(done.ok());
      EXPECT_EQ(done.error().code, Code::cancelled);
      EXPECT_EQ(r.memory.is_folder("out"), resume);
      stop = false;
      const int64_t left = r.go_on();
      EXPECT_EQ(r.memory.get("out/m.gguf"), wanted);
      if (resume && percent >= 50) {
        EXPECT_LT(left, steps * 3 / 4) << percent;  // it notes where it is when it is stopped
      }
    }
  }
}

TEST(ConvertResume, SaysWhetherItGoesOnOrBeginsAnew) {
  const int64_t steps = Resumable().stop_at(-1);
  Resumable r;
  std::vector<std::string> said;
  r.options.notice = [&](const std::string& sentence) { said.push_back(sentence); };
  r.stop_at(steps * 3 / 4);
  r.stop_at(steps / 8);
  r.options.type = TensorType::q4_0;
  r.go_on();
  ASSERT_EQ(said.size(), 3u);
  EXPECT_NE(said[0].find("beginning anew: there is no out/m.gguf.partial"), std::string::npos) << said[0];
  EXPECT_NE(said[1].find("going on with out/m.gguf.partial"), std::string::npos) << said[1];
  EXPECT_NE(said[2].find("beginning anew: out/m.gguf.partial held nothing"), std::string::npos) << said[2];
}

TEST(ConvertResume, DoesNotGoOnWithOtherWorkOrFromATornMark) {
  const int64_t steps = Resumable().stop_at(-1);
  {
    Resumable r;
    r.stop_at(steps * 3 / 4);
    r.options.type = TensorType::q4_0;
    r.go_on();
    EXPECT_EQ(r.memory.get("out/m.gguf"), r.wanted());
  }
  for (const size_t from_end : {size_t{1}, size_t{20}, size_t{40}}) {
    Resumable r;
    r.stop_at(steps * 3 / 4);
    std::string partial = r.memory.get("out/m.gguf.partial");
    partial[partial.size() - from_end] ^= 1;
    r.memory.put("out/m.gguf.partial", partial);
    EXPECT_GE(r.go_on(), steps) << from_end;
    EXPECT_EQ(r.memory.get("out/m.gguf"), r.wanted());
  }
}

TEST(ConvertResume, DoesNotGoOnUnderAnotherImportanceMatrix) {
  const auto prepare = [](Resumable& r, float sum) {
    r.options.imatrix = "matrix.gguf";
    const Status written = format::write_importance(r.memory, "matrix.gguf", {{}, 1, 1, {{"m", {1, {sum}, {1}}}}});
    ASSERT_TRUE(written.ok()) << written.error().message;
  };
  Resumable whole;
  prepare(whole, 1);
  const int64_t steps = whole.stop_at(-1);
  for (const float sum : {1.0f, 2.0f}) {
    Resumable r;
    prepare(r, 1);
    r.stop_at(steps * 3 / 4);
    prepare(r, sum);
    const int64_t left = r.go_on();
    EXPECT_EQ(left < steps, sum == 1) << sum;
    EXPECT_EQ(r.memory.get("out/m.gguf"), r.wanted());
  }
}

}  // namespace
}  // namespace evros::ops
