// tests/data/micro against the reference library: every logit, layer output, row, route, selection and end state.
#include "golden.h"

namespace evros::tests {
namespace {

constexpr float kTolerance = 1e-4f;

// The reference keeps one column more of the GDN convolution's history; ours are its last ones.
std::vector<float> last_columns(const ops::TraceTensor& reference, size_t columns) {
  const auto all = reference.as<float>();
  const size_t wide = reference.shape[2];
  std::vector<float> out;
  for (size_t row = 0; row < reference.shape[1]; ++row) {
    for (size_t c = wide - columns; c < wide; ++c) out.push_back(all[row * wide + c]);
  }
  return out;
}

void compare(const std::string& name, const ops::TraceTensor& ours, const ops::TraceTensor& reference) {
  SCOPED_TRACE(name);
  ASSERT_EQ(ours.dtype, reference.dtype);
  if (reference.dtype != "F32") {
    EXPECT_EQ(ours.shape, reference.shape);
    EXPECT_TRUE(ours.data == reference.data) << "differs where equality is asked for";
    return;
  }
  if (name.ends_with("conv_states.0")) {
    EXPECT_LE(max_difference(ours.as<float>(), last_columns(reference, ours.shape[2])), kTolerance);
    return;
  }
  EXPECT_EQ(ours.shape, reference.shape);
  EXPECT_LE(max_difference(ours.as<float>(), reference.as<float>()), kTolerance);
}

void compare_sequence(engine::Engine& engine, const Golden& golden, const std::string& sequence) {
  const auto ids = golden.at(sequence + ".tokens").as<int32_t>();
  const ops::Trace trace = must_trace(engine, ids, {}, sequence);
  size_t compared = 0;
  for (const auto& [name, reference] : golden) {
    if (!name.starts_with(sequence + ".")) continue;
    const auto ours = trace.find(name);
    ASSERT_NE(ours, trace.end()) << name << " is not in the trace";
    compare(name, ours->second, reference);
    ++compared;
  }
  EXPECT_GE(compared, 40u);
}

TEST(Micro, EveryValueOfTheReferenceFromSafetensors) {
  const Golden golden = load_golden(micro_file("golden.safetensors"));
  const auto engine = must_load(micro_file("hf"), reference_options(96));
  ASSERT_NE(engine, nullptr);
  for (const char* sequence : {"a", "b", "c"}) compare_sequence(*engine, golden, sequence);
}

TEST(Micro, GreedyContinuationTokenForToken) {
  const Golden golden = load_golden(micro_file("golden.safetensors"));
  const auto engine = must_load(micro_file("hf"), reference_options(96));
  ASSERT_NE(engine, nullptr);
  const auto session = engine->open();
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(engine->append(*session, golden.at("greedy.prompt").as<int32_t>()).ok());
  std::vector<float> logits(static_cast<size_t>(engine->model().hyper.vocab));
  size_t step = 0;
  for (const int32_t expected : golden.at("greedy.tokens").as<int32_t>()) {
    ASSERT_TRUE(engine->logits(*session, logits).ok());
    const auto id = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    ASSERT_EQ(id, expected) << "at step " << step;
    ASSERT_TRUE(engine->append(*session, {&id, 1}).ok());
    ++step;
  }
  EXPECT_EQ(step, 48u);
}

}  // namespace
}  // namespace evros::tests
