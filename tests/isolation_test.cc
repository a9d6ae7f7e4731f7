// Sequences do not influence each other (docs/state.md, S4), and an image depends on its tokens alone (S3): batches
// that mix sequences, slots used again, resets and forks, each against the same tokens in a session of their own.
#include "base/rng.h"
#include "golden.h"
#include "image.h"

namespace evros::tests {
namespace {

using Tokens = std::vector<int32_t>;

Tokens micro_tokens(const std::string& sequence) {
  static const Golden golden = load_golden(micro_file("golden.safetensors"));
  const auto ids = golden.at(sequence + ".tokens").as<int32_t>();
  return {ids.begin(), ids.end()};
}

struct Setting {
  const char* name;
  const char* path;  // "" for the folder, or the type of a GGUF file
  const char* kv;
};
constexpr Setting kSettings[] = {{"bf16", "", "f16"}, {"q8_0", "q8_0", "f32"}, {"q4_0", "q4_0", "bf16"}};

std::unique_ptr<engine::Engine> load_micro(const Setting& setting, int32_t sessions, int32_t batch) {
  engine::EngineOptions options;
  options.kv = setting.kv;
  options.sessions = sessions;
  options.batch = batch;
  options.chunk = 96;
  options.context = 256;
  options.threads = 2;
  const std::string type = setting.path;
  return must_load(type.empty() ? micro_file("hf") : micro_gguf(type), options);
}

class Isolation : public testing::TestWithParam<Setting> {};

// Logits after every token of `tokens`, one at a time in a session of its own.
std::vector<std::vector<float>> solo_logits(engine::Engine& engine, const Tokens& tokens) {
  const auto session = engine.open();
  CHECK(session.ok());
  std::vector<std::vector<float>> logits;
  for (const int32_t id : tokens) {
    EXPECT_TRUE(engine.append(*session, {&id, 1}).ok());
    logits.push_back(logits_of(engine, *session));
  }
  EXPECT_TRUE(engine.close(*session).ok());
  return logits;
}

// One sequence on its way through mixed batches.
struct Traveller {
  Tokens tokens;
  std::vector<std::vector<float>> logits;  // solo
  engine::SessionId session;
  size_t done = 0;
};

// Which travellers take part in a step and with how many tokens: single tokens and prompts, in changing company and
// order.
std::vector<size_t> draw_batch(std::vector<Traveller>& all, uint64_t seed, uint32_t step,
                               std::vector<engine::ChunkRow>& rows) {
  std::vector<size_t> chosen;
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t who = (i + step) % all.size();
    Traveller& traveller = all[who];
    const size_t left = traveller.tokens.size() - traveller.done;
    if (left == 0 || uniform(seed, step, 2 * who) < 0.25) continue;
    const double size = uniform(seed, step, 2 * who + 1);
    const size_t n = std::min(left, size < 0.5 ? 1 : static_cast<size_t>(size * 24));
    rows.push_back({traveller.session, std::span(traveller.tokens).subspan(traveller.done, n)});
    chosen.push_back(who);
  }
  return chosen;
}

TEST_P(Isolation, MixedBatchesGiveEachSequenceItsSoloBits) {
  const auto solo = load_micro(GetParam(), 1, 1), mixed = load_micro(GetParam(), 3, 3);
  ASSERT_TRUE(solo != nullptr && mixed != nullptr);
  std::vector<Traveller> all;
  for (const char* sequence : {"a", "b", "c"}) {
    const Tokens tokens = micro_tokens(sequence);
    all.push_back({tokens, solo_logits(*solo, tokens), mixed->open().value(), 0});
  }
  size_t together = 0;
  const auto unfinished = [&] {
    return std::any_of(all.begin(), all.end(), [](const Traveller& t) { return t.done < t.tokens.size(); });
  };
  for (uint32_t step = 0; unfinished(); ++step) {
    std::vector<engine::ChunkRow> rows;
    const std::vector<size_t> chosen = draw_batch(all, 4099, step, rows);
    if (rows.empty()) continue;
    const auto statuses = mixed->run_chunk(rows);
    ASSERT_TRUE(statuses.ok()) << statuses.error().message;
    for (size_t i = 0; i < chosen.size(); ++i) {
      ASSERT_TRUE((*statuses)[i].ok()) << (*statuses)[i].error().message;
      Traveller& traveller = all[chosen[i]];
      traveller.done += rows[i].tokens.size();
      ASSERT_EQ(logits_of(*mixed, traveller.session), traveller.logits[traveller.done - 1])
          << "sequence " << chosen[i] << " after " << traveller.done << " tokens";
    }
    together += chosen.size() > 1 ? 1 : 0;
  }
  EXPECT_GE(together, 3u);
  for (const Traveller& traveller : all)
    EXPECT_EQ(image_of(*mixed, traveller.session), solo_image(*solo, traveller.tokens));
  mixed->store().check_consistency();
}

TEST_P(Isolation, AReusedSlotRemembersNothing) {
  const auto fresh = load_micro(GetParam(), 1, 1), used = load_micro(GetParam(), 1, 1);
  ASSERT_TRUE(fresh != nullptr && used != nullptr);
  const SessionImage expected = solo_image(*fresh, micro_tokens("b"));
  solo_image(*used, micro_tokens("a"));
  EXPECT_EQ(solo_image(*used, micro_tokens("b")), expected) << "after close and open";
  const auto session = used->open();
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(used->append(*session, micro_tokens("a")).ok());
  ASSERT_TRUE(used->reset(*session).ok());
  EXPECT_EQ(*used->frontier(*session), 0);
  std::vector<float> logits(static_cast<size_t>(used->model().hyper.vocab));
  EXPECT_FALSE(used->logits(*session, logits).ok()) << "an empty session has no logits";
  ASSERT_TRUE(used->append(*session, micro_tokens("b")).ok());
  EXPECT_EQ(image_of(*used, *session), expected) << "after reset";
}

Tokens joined(const Tokens& first, size_t take, const Tokens& then) {
  Tokens all(first.begin(), first.begin() + static_cast<ptrdiff_t>(take));
  all.insert(all.end(), then.begin(), then.end());
  return all;
}

// Forks share a page whose last rows are free, so both sides write rows that the other must not see.
TEST_P(Isolation, ForksDivergeOnBothSides) {
  const auto solo = load_micro(GetParam(), 1, 1), forked = load_micro(GetParam(), 2, 2);
  ASSERT_TRUE(solo != nullptr && forked != nullptr);
  for (const size_t shared : {21u, 64u, 70u}) {
    SCOPED_TRACE(shared);
    const Tokens prompt = joined(micro_tokens("a"), shared, {}), left = micro_tokens("b"), right = micro_tokens("c");
    const auto a = forked->open();
    ASSERT_TRUE(a.ok());
    ASSERT_TRUE(forked->append(*a, prompt).ok());
    const SessionImage before = image_of(*forked, *a);
    const auto b = forked->fork(*a);
    ASSERT_TRUE(b.ok());
    EXPECT_EQ(image_of(*forked, *b), before);
    ASSERT_TRUE(forked->append(*b, right).ok());
    EXPECT_EQ(image_of(*forked, *a), before) << "the fork's tokens reached the original";
    ASSERT_TRUE(forked->append(*a, left).ok());
    EXPECT_EQ(image_of(*forked, *a), solo_image(*solo, joined(prompt, shared, left)));
    EXPECT_EQ(image_of(*forked, *b), solo_image(*solo, joined(prompt, shared, right)));
    const engine::ChunkRow both[] = {{*a, right}, {*b, left}};
    const auto statuses = forked->run_chunk(both);
    ASSERT_TRUE(statuses.ok());
    EXPECT_EQ(image_of(*forked, *a),
              solo_image(*solo, joined(joined(prompt, shared, left), shared + left.size(), right)));
    EXPECT_EQ(image_of(*forked, *b),
              solo_image(*solo, joined(joined(prompt, shared, right), shared + right.size(), left)));
    EXPECT_TRUE(forked->close(*a).ok());
    EXPECT_TRUE(forked->close(*b).ok());
    forked->store().check_consistency();
    EXPECT_EQ(forked->store().usage().pages, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Isolation, testing::ValuesIn(kSettings),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace evros::tests
