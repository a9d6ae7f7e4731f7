// What a refused, cancelled or failed chunk leaves behind: nothing (docs/state.md S2, S6), and the next clean run gives
// the bits of a run that never failed (S7). On the micro checkpoint, and on copies of it with damaged weights.
#include "damaged_copy.h"
#include "golden.h"
#include "image.h"

namespace evros::tests {
namespace {

using Tokens = std::vector<int32_t>;

Tokens micro_tokens(const std::string& sequence, size_t first, size_t count) {
  static const Golden golden = load_golden(micro_file("golden.safetensors"));
  const auto ids = golden.at(sequence + ".tokens").as<int32_t>().subspan(first, count);
  return {ids.begin(), ids.end()};
}

std::unique_ptr<engine::Engine> load(const std::string& path, const std::string& kv, int32_t sessions,
                                     int64_t context) {
  engine::EngineOptions options;
  options.kv = kv;
  options.sessions = sessions;
  options.batch = sessions;
  options.chunk = 16;
  options.context = context;
  options.threads = 1;
  return must_load(path, options);
}

std::string micro() { return micro_file("hf"); }

template <typename R>
void expect_code(const R& result, Code code) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, code) << result.error().message;
}

TEST(Refused, LeavesNoTrace) {
  const auto engine = load(micro(), "f16", 3, 24);
  ASSERT_NE(engine, nullptr);
  const auto session = engine->open(), other = engine->open(), gone = engine->open();
  ASSERT_TRUE(session.ok() && other.ok() && gone.ok());
  ASSERT_TRUE(engine->close(*gone).ok());
  ASSERT_TRUE(engine->append(*session, micro_tokens("a", 0, 20)).ok());
  ASSERT_TRUE(engine->append(*other, micro_tokens("b", 0, 3)).ok());
  const SessionImage before = image_of(*engine, *session), other_before = image_of(*engine, *other);
  const state::Usage usage = engine->store().usage();
  const Tokens good = micro_tokens("a", 20, 2), full = micro_tokens("a", 20, 5);
  const Tokens low{7, -1}, high{7, engine->model().hyper.vocab};
  const auto chunk = [&](std::vector<engine::ChunkRow> rows) { return engine->run_chunk(rows); };
  for (const Tokens& bad : {low, high, full, Tokens{}}) {
    expect_code(engine->append(*session, bad), Code::invalid_argument);
    expect_code(chunk({{*other, good}, {*session, bad}}), Code::invalid_argument);
  }
  expect_code(chunk({{*session, good}, {*session, good}}), Code::invalid_argument);
  expect_code(chunk({}), Code::invalid_argument);
  expect_code(chunk({{*other, micro_tokens("a", 0, 17)}}), Code::invalid_argument);
  expect_code(chunk({{*other, good}, {*gone, good}}), Code::stale);
  expect_code(engine->append(*gone, good), Code::stale);
  expect_code(engine->append(*session, good, {.all_logits = true}), Code::invalid_argument);
  EXPECT_EQ(image_of(*engine, *session), before);
  EXPECT_EQ(image_of(*engine, *other), other_before);
  EXPECT_EQ(engine->store().usage().pages, usage.pages);
  EXPECT_EQ(engine->store().usage().banks, usage.banks);
  ASSERT_TRUE(engine->append(*session, good).ok());
  EXPECT_EQ(image_of(*engine, *session), solo_image(*engine, micro_tokens("a", 0, 22)));
  engine->store().check_consistency();
}

TEST(Refused, AnAppendThatCannotFitRunsNoChunkOfIt) {
  const auto engine = load(micro(), "f16", 1, 24);
  ASSERT_NE(engine, nullptr);
  const auto session = engine->open();
  ASSERT_TRUE(session.ok());
  expect_code(engine->append(*session, micro_tokens("a", 0, 25)), Code::invalid_argument);
  EXPECT_EQ(*engine->frontier(*session), 0);
  EXPECT_TRUE(engine->append(*session, micro_tokens("a", 0, 24)).ok());
}

// Runs a chunk that is cancelled just before its Nth stage; Nth == number of stages: before publication. False when the
// chunk has no such stage.
bool cancel_before(engine::Engine& engine, engine::SessionId session, const Tokens& tokens, size_t nth,
                   bool by_observer) {
  std::atomic<bool> cancel = nth == 0 && !by_observer;
  size_t seen = 0;
  const engine::Observer observer = [&](const model::Pass&, const model::Stage*) -> Status {
    ++seen;
    if (by_observer && seen == nth + 1) return Error{Code::cancelled, "enough"};
    if (!by_observer && seen == nth) cancel = true;
    return {};
  };
  const engine::ChunkRow row{session, tokens};
  const auto result = engine.run_chunk({&row, 1}, {.all_logits = false, .cancel = &cancel, .observer = &observer});
  if (result.ok()) return false;
  EXPECT_EQ(result.error().code, Code::cancelled) << result.error().message;
  return true;
}

TEST(Cancelled, BeforeEveryStageLeavesTheImageAndTheNextRunAlone) {
  const auto engine = load(micro(), "f16", 2, 96);
  ASSERT_NE(engine, nullptr);
  const Tokens prompt = micro_tokens("a", 0, 21), next = micro_tokens("a", 21, 9);
  const SessionImage whole = solo_image(*engine, micro_tokens("a", 0, 30));
  const auto base = engine->open();
  ASSERT_TRUE(base.ok());
  ASSERT_TRUE(engine->append(*base, prompt).ok());
  const SessionImage before = image_of(*engine, *base);
  for (const bool by_observer : {false, true}) {
    size_t stage = 0;
    for (;; ++stage) {
      SCOPED_TRACE(stage);
      const auto session = engine->fork(*base);
      ASSERT_TRUE(session.ok());
      const bool cancelled = cancel_before(*engine, *session, next, stage, by_observer);
      if (cancelled) {
        ASSERT_EQ(image_of(*engine, *session), before);
        ASSERT_TRUE(engine->append(*session, next).ok());
      }
      ASSERT_EQ(image_of(*engine, *session), whole);
      ASSERT_TRUE(engine->close(*session).ok());
      if (!cancelled) break;
    }
    EXPECT_EQ(stage, model::make_stages(engine->model().hyper).size() + 1) << "a stage cannot be cancelled";
  }
  EXPECT_EQ(image_of(*engine, *base), before);
  engine->store().check_consistency();
}

// ---- damaged weights
// ----------------------------------------------------------------------------------------------------

// Two clean sequences with one that fails between them, in one batch. `prompt` and `then` are what the failing one
// holds before and is given afterwards.
struct Company {
  Tokens first, prompt, failing, then, last;
};

void expect_only_the_middle_fails(engine::Engine& engine, const Company& c) {
  const auto a = engine.open(), middle = engine.open(), b = engine.open();
  ASSERT_TRUE(a.ok() && middle.ok() && b.ok());
  ASSERT_TRUE(engine.append(*middle, c.prompt).ok());
  const SessionImage before = image_of(engine, *middle);
  const engine::ChunkRow rows[] = {{*a, c.first}, {*middle, c.failing}, {*b, c.last}};
  const auto statuses = engine.run_chunk(rows);
  ASSERT_TRUE(statuses.ok()) << statuses.error().message;
  EXPECT_TRUE((*statuses)[0].ok() && (*statuses)[2].ok());
  expect_code((*statuses)[1], Code::non_finite);
  EXPECT_EQ(image_of(engine, *middle), before) << "a failed row was published";
  const SessionImage image_a = image_of(engine, *a), image_b = image_of(engine, *b);
  ASSERT_TRUE(engine.append(*middle, c.then).ok());
  const SessionImage after = image_of(engine, *middle);
  for (const auto& session : {*a, *middle, *b}) ASSERT_TRUE(engine.close(session).ok());
  EXPECT_EQ(image_a, solo_image(engine, c.first));
  EXPECT_EQ(image_b, solo_image(engine, c.last));
  Tokens joined = c.prompt;
  joined.insert(joined.end(), c.then.begin(), c.then.end());
  EXPECT_EQ(after, solo_image(engine, joined)) << "the failure left something behind";
  engine.store().check_consistency();
}

constexpr size_t kHidden = 64, kChannel = 13;
constexpr int32_t kPoisonToken = 77;
constexpr uint16_t kHundred = 0x42c8, kHuge = 0x7f60;  // bfloat16: 100 and 3e38

// Finite weights that overflow for one token alone: only its embedding has anything in one channel, and one row of
// layer 0's gate projection multiplies that channel with almost the largest float.
std::string overflowing_checkpoint() {
  return damaged_copy("overflow", {{"model.embed_tokens.weight",
                                    [](std::span<uint16_t> values) {
                                      for (size_t row = 0; row < values.size() / kHidden; ++row)
                                        values[row * kHidden + kChannel] = 0;
                                      values[static_cast<size_t>(kPoisonToken) * kHidden + kChannel] = kHundred;
                                    }},
                                   {"model.layers.0.linear_attn.in_proj_z.weight",
                                    [](std::span<uint16_t> values) { values[kChannel] = kHuge; }}});
}

TEST(NonFinite, AnOverflowFailsOnlyTheSequenceThatMeetsIt) {
  const auto engine = load(overflowing_checkpoint(), "f16", 3, 96);
  ASSERT_NE(engine, nullptr);
  expect_only_the_middle_fails(*engine, {{5, 6, 7}, {5, 6, 20}, {8, 9, kPoisonToken, 10}, {8, 9}, {11, 12}});
  expect_only_the_middle_fails(*engine, {{5}, {21}, {kPoisonToken}, {8}, {11}});
}

TEST(NonFinite, ANaNWeightIsRefusedByName) {
  const std::string path =
      damaged_copy("nan", {{"model.embed_tokens.weight", [](std::span<uint16_t> values) { values[99] = 0x7fc0; }}});
  const auto engine = engine::Engine::load(io::real_io(), path, {});
  expect_code(engine, Code::bad_file);
  EXPECT_NE(engine.error().message.find("token_embd.weight"), std::string::npos) << engine.error().message;
}

TEST(NonFinite, AnAppendOfManyChunksLeavesNothingOfThoseBeforeTheFailure) {
  const auto engine = load(overflowing_checkpoint(), "f16", 1, 96);
  ASSERT_NE(engine, nullptr);
  Tokens tokens = micro_tokens("a", 0, 40);
  std::replace(tokens.begin(), tokens.end(), kPoisonToken, kPoisonToken + 1);
  const auto session = engine->open();
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(engine->append(*session, std::span(tokens).first(5)).ok());
  const SessionImage before = image_of(*engine, *session);
  Tokens failing = tokens;
  failing[35] = kPoisonToken;
  expect_code(engine->append(*session, std::span(failing).subspan(5)), Code::non_finite);
  EXPECT_EQ(image_of(*engine, *session), before);
  ASSERT_TRUE(engine->append(*session, std::span(tokens).subspan(5)).ok());
  const SessionImage whole = image_of(*engine, *session);
  ASSERT_TRUE(engine->close(*session).ok());
  EXPECT_EQ(whole, solo_image(*engine, tokens));
}

// Sequence b's values in layer 3, by position (the reference's): scaled by 2^15, those before position 36 reach 62664,
// which half precision holds, and that position reaches 74095, which it does not. Scaling by powers of two is exact.
TEST(NonFinite, AValueTooLargeForTheCacheTypeFailsItsSequenceAlone) {
  constexpr uint16_t kDoublings = 15;
  const std::string path =
      damaged_copy("large_values", {{"model.layers.3.self_attn.v_proj.weight", [](std::span<uint16_t> values) {
                                       for (uint16_t& v : values) {
                                         if ((v & 0x7f80) != 0) v = static_cast<uint16_t>(v + (kDoublings << 7));
                                       }
                                     }}});
  const Tokens prompt = micro_tokens("b", 0, 36), large = micro_tokens("b", 36, 1);
  const auto half = load(path, "f16", 3, 96);
  ASSERT_NE(half, nullptr);
  expect_only_the_middle_fails(
      *half, {micro_tokens("b", 0, 5), prompt, large, micro_tokens("b", 0, 2), micro_tokens("b", 0, 3)});
  const auto wide = load(path, "bf16", 1, 96);
  ASSERT_NE(wide, nullptr);
  EXPECT_EQ(solo_image(*wide, micro_tokens("b", 0, 37)).frontier, 37) << "what the error sentence recommends must work";
}

}  // namespace
}  // namespace evros::tests
