// Models of random weights: their shape is the published one, their bytes depend on the options alone, and they run.
#include "ops/synth_random.h"

#include <cmath>
#include <map>
#include <numeric>

#include "engine/engine.h"
#include "engine/text_kit.h"
#include "engine/weight_loader.h"
#include "io/memory_io.h"
#include "kernels/derive.h"
#include "ops/test_model_files.h"

namespace evros::ops {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)
using format::TensorType;

/// The smallest of its kind: 2 layers, both linear.
RandomOptions small(const std::string& type) {
  RandomOptions options;
  options.layers = 2, options.experts = 10, options.vocab = 1024, options.table_rows = 4096, options.type = type;
  options.threads = 2;
  return options;
}

std::string digest_of(io::Io& io, const std::string& path) {
  const auto text = io::read_file(io, path, uint64_t{1} << 32);
  CHECK(text.ok());
  return *text;
}

TEST(SynthRandom, HasThePublishedWidthsAndTheChosenNumbers) {
  RandomOptions options;
  options.table_rows = 320'001'536;
  const format::HyperParams h = random_shape(options), real = real_shape();
  EXPECT_EQ(h.layers, 8);
  EXPECT_EQ(std::count(h.layer_kind.begin(), h.layer_kind.end(), format::LayerKind::full), 2);
  EXPECT_EQ(h.experts, 64);
  EXPECT_EQ(h.vocab, 32768);
  EXPECT_EQ(h.hidden, 2560);
  EXPECT_EQ(h.conv_channels(), 10240);
  EXPECT_EQ(h.expert_ff, 640);
  EXPECT_EQ(h.ple_table_rows, real.ple_table_rows);
  EXPECT_LE(h.ple[0].head_offset.back() + h.ple[0].head_vocab.back(), h.ple_table_rows);
  // 20,000,003 is the first prime above 20 million; the sixteen here are the last ones up to 20,000,096.
  EXPECT_EQ(h.ple[0].head_vocab.back(), 20'000'093u);
}

TEST(SynthRandom, BytesDependOnTheSeedAndNotOnTheThreads) {
  io::MemoryIo io;
  RandomOptions one = small("q4_0"), other = one, seeded = one;
  one.threads = 1, other.threads = 3, seeded.seed = 2;
  ASSERT_TRUE(synth_random(io, "one.gguf", one, {}).ok());
  ASSERT_TRUE(synth_random(io, "other", other, {}).ok());  // .gguf is added
  ASSERT_TRUE(synth_random(io, "seeded.gguf", seeded, {}).ok());
  EXPECT_TRUE(digest_of(io, "one.gguf") == digest_of(io, "other.gguf"));
  EXPECT_FALSE(digest_of(io, "one.gguf") == digest_of(io, "seeded.gguf"));
}

// The first rows of an expert matrix, as floats.
std::vector<float> some_weights(io::Io& io, const std::string& path, const char* name) {
  const auto model = open_or_die(io, path);
  auto all = engine::read_floats(*model, *model->find(name));
  CHECK(all.ok());
  return *all;
}

TEST(SynthRandom, WeightsHaveTheVarianceThatKeepsSizes) {
  for (const char* type : {"q8_0", "q4_0"}) {
    io::MemoryIo io;
    ASSERT_TRUE(synth_random(io, "m.gguf", small(type), {}).ok());
    for (const auto& [name, k] :
         std::map<const char*, double>{{"blk.0.attn_qkv.weight", 2560}, {"blk.0.ffn_down_shexp.weight", 640}}) {
      const std::vector<float> w = some_weights(io, "m.gguf", name);
      double sum = 0, squares = 0;
      for (const float x : w) sum += x, squares += double{x} * x;
      const auto n = static_cast<double>(w.size());
      EXPECT_NEAR(sum / n * std::sqrt(k), 0, 0.02) << name;
      EXPECT_NEAR(squares / n * k, 1, 0.03) << name;
    }
    for (const float a : some_weights(io, "m.gguf", "blk.1.ssm_a")) EXPECT_LT(a, 0);
  }
}

TEST(SynthRandom, BlocksOfTypesThatAreOnlyReadHaveThatSizeToo) {
  for (const std::string& type : random_types()) {
    if (type == "mix" || kernels::can_quantize(*format::type_by_name(type))) continue;
    io::MemoryIo io;
    ASSERT_TRUE(synth_random(io, "m.gguf", small(type), {}).ok()) << type;
    double squares = 0;
    const std::vector<float> w = some_weights(io, "m.gguf", "blk.0.attn_qkv.weight");
    for (const float x : w) squares += double{x} * x;
    const double size = std::sqrt(squares / static_cast<double>(w.size()) * 2560);
    const bool coarse = type == "mxfp4" || type == "nvfp4";  // whose scales are powers of two or have few bits
    EXPECT_GT(size, coarse ? 0.45 : 0.97) << type;
    EXPECT_LT(size, 1.03) << type;
  }
}

TEST(SynthRandom, TheMixIsThePublishedOne) {
  io::MemoryIo io;
  ASSERT_TRUE(synth_random(io, "m.gguf", small("mix"), {}).ok());
  const auto model = open_or_die(io, "m.gguf");
  const auto type = [&](const char* name) { return model->find(name)->type; };
  EXPECT_EQ(type("blk.0.ffn_gate_exps.weight"), TensorType::q4_k);
  EXPECT_EQ(type("blk.0.ffn_down_exps.weight"), TensorType::q5_1);
  EXPECT_EQ(type("blk.0.attn_qkv.weight"), TensorType::q8_0);
  EXPECT_EQ(type("blk.0.ffn_gate_inp.weight"), TensorType::f32);
  EXPECT_EQ(type("per_layer_token_embd.weight"), TensorType::iq4_nl);
}

TEST(SynthRandom, EveryTypeLoadsAndGivesFiniteLogits) {
  for (const char* type :
       {"q8_0", "q4_0", "q4_k", "q5_k", "q6_k", "iq4_nl", "bf16", "mix", "q4_1", "iq2_xxs", "mxfp4", "nvfp4"}) {
    io::MemoryIo io;
    ASSERT_TRUE(synth_random(io, "m.gguf", small(type), {}).ok()) << type;
    const auto tokenizer = engine::load_tokenizer(*open_or_die(io, "m.gguf"));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    engine::EngineOptions options;
    options.context = 256, options.threads = 2;
    const auto engine = engine::Engine::load(io, "m.gguf", options);
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    const auto session = (*engine)->open();
    std::vector<int32_t> text(40);
    std::iota(text.begin(), text.end(), 300);
    ASSERT_TRUE((*engine)->append(*session, text).ok()) << type;  // fails on the first number that is not finite
    std::vector<float> logits(1024);
    ASSERT_TRUE((*engine)->logits(*session, logits).ok());
    double squares = 0;
    for (const float x : logits) squares += double{x} * x;
    EXPECT_GT(squares / 1024, std::string(type) == "mxfp4" ? 0.02 : 0.05)
        << type;                            // neither dead; its scales are powers of two
    EXPECT_LT(squares / 1024, 20) << type;  // nor running away
  }
}

TEST(SynthRandom, ADiskWithoutRoomIsRefusedWithNumbersBeforeAnythingIsWritten) {
  io::MemoryIo memory;
  FailingIo io(memory);
  io.free = 1000;
  const auto done = synth_random(io, "d/m.gguf", small("q8_0"), {});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, Code::io);
  EXPECT_NE(done.error().message.find("1000 B free"), std::string::npos) << done.error().message;
  EXPECT_EQ(io.changes, 0);
}

TEST(SynthRandom, WorkThatIsStoppedLeavesNothing) {
  io::MemoryIo io;
  std::atomic<bool> stop{false};
  RandomOptions options = small("q8_0");
  options.threads = 1, options.stop = &stop;
  uint64_t last = 0, all = 0;
  const auto done = synth_random(io, "d/m.gguf", options, [&](uint64_t so_far, uint64_t total) {
    last = so_far, all = total;
    if (so_far > total / 3) stop = true;
  });
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, Code::cancelled);
  EXPECT_LT(last, all);
  EXPECT_FALSE(io.is_folder("d"));
}

TEST(SynthRandom, WhatIsTooSmallIsRefusedWithTheLeast) {
  io::MemoryIo io;
  RandomOptions options = small("q8_0");
  options.experts = 9;
  const auto done = synth_random(io, "m.gguf", options, {});
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message.find("at least 10"), std::string::npos) << done.error().message;
  EXPECT_FALSE(io.exists("m.gguf"));
}

}  // namespace
}  // namespace evros::ops
