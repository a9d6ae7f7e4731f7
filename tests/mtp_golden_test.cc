// The draft head of models/evros-tiny against an independent implementation (models/evros-tiny/README.md): both
// readings of its hidden norm.
#include "kernels/rope_table.h"
#include "model/mtp.h"
#include "tiny_golden.h"

namespace evros::tests {
namespace {

constexpr int32_t kPageTokens = 64;

// A draft head with memory of its own, over one sequence.
class DraftHead {
 public:
  DraftHead(engine::Engine& engine, int32_t chunk, int64_t context)
      : model_(engine.model()),
        device_(engine.device()),
        rope_(model_.hyper.rope_dims, model_.hyper.rope_theta),
        chunk_(chunk) {
    const model::PassLimits limits{chunk, 1, chunk, context, false};
    arena_ = must_allocate(model::carve_mtp_scratch(model_.hyper, limits, nullptr).bytes);
    mtp_ = model::carve_mtp_scratch(model_.hyper, limits, arena_.data());
    pages_ = model::make_mtp_pages(model_.hyper, model_.numerics.kv, kPageTokens);
    const auto count = static_cast<uint64_t>((context + kPageTokens - 1) / kPageTokens);
    page_memory_ = must_allocate(pages_.page_bytes * count);
    for (uint64_t p = 0; p < count; ++p) table_.push_back(page_memory_.data() + p * pages_.page_bytes);
  }

  /// Logits [rows][vocab] of a whole sequence: hidden [rows][wide], ids the tokens one ahead.
  std::vector<float> run(std::span<const float> hidden, std::span<const int32_t> ids, model::HiddenNorm norm,
                         bool all_logits) {
    std::vector<float> logits;
    const auto wide = static_cast<size_t>(model_.hyper.wide());
    for (size_t at = 0; at < ids.size(); at += static_cast<size_t>(chunk_)) {
      const size_t n = std::min(ids.size() - at, static_cast<size_t>(chunk_));
      run_chunk(hidden.subspan(at * wide, n * wide), ids.subspan(at, n), static_cast<int64_t>(at), norm, all_logits,
                logits);
    }
    return logits;
  }

 private:
  device::Buffer must_allocate(uint64_t bytes) {
    auto buffer = device_.allocate(bytes, "a draft head's test memory");
    CHECK(buffer.ok());
    return std::move(buffer).value();
  }
  template <typename T>
  void put(T* to, std::span<const T> from) {
    CHECK(device_.upload(reinterpret_cast<std::byte*>(to), std::as_bytes(from)).ok());
  }

  void run_chunk(std::span<const float> hidden, std::span<const int32_t> ids, int64_t position, model::HiddenNorm norm,
                 bool all_logits, std::vector<float>& logits) {
    const auto n = static_cast<int32_t>(ids.size());
    const std::vector<int32_t> sequence_of(ids.size(), 0);
    std::vector<int64_t> positions;
    std::vector<float> rope(ids.size() * static_cast<size_t>(model_.hyper.rope_dims));
    for (size_t i = 0; i < ids.size(); ++i) {
      positions.push_back(position + static_cast<int64_t>(i));
      const auto dims = static_cast<size_t>(model_.hyper.rope_dims);
      rope_.row(positions.back(), std::span(rope).subspan(i * dims, dims));
    }
    const kernels::SequenceRows rows{0, n, position, nullptr, nullptr, table_.data()};
    const kernels::SequenceRows last{0, 1, position + n - 1, nullptr, nullptr, table_.data()};
    const uint32_t clean = 0;
    const model::Scratch& s = mtp_.scratch;
    put(mtp_.hidden, hidden);
    put(s.ids, ids);
    put(s.rope, std::span<const float>(rope));
    put(s.row_sequence, std::span<const int32_t>(sequence_of));
    put(s.last_row_sequence, std::span<const int32_t>(sequence_of).first(1));
    put(s.row_position, std::span<const int64_t>(positions));
    put(s.last_position, std::span<const int64_t>(positions).last(1));
    put(s.sequence, std::span(&rows, 1));
    put(s.last_sequence, std::span(&last, 1));
    put(s.status, std::span(&clean, 1));
    const model::Pass pass{&model_,
                           &s,
                           {n, 1, kPageTokens, s.sequence, s.row_sequence, s.row_position, s.status},
                           {1, 1, kPageTokens, s.last_sequence, s.last_row_sequence, s.last_position, s.status},
                           all_logits};
    ASSERT_TRUE(model::run_mtp(pass, mtp_, pages_, norm, device_).ok());
    uint32_t status = 1;
    ASSERT_TRUE(
        device_.download(std::as_writable_bytes(std::span(&status, 1)), reinterpret_cast<const std::byte*>(s.status))
            .ok());
    EXPECT_EQ(status, 0u);
    const size_t floats = (all_logits ? ids.size() : 1) * static_cast<size_t>(model_.hyper.vocab);
    logits.resize(logits.size() + floats);
    ASSERT_TRUE(device_
                    .download(std::as_writable_bytes(std::span(logits).last(floats)),
                              reinterpret_cast<const std::byte*>(s.logits))
                    .ok());
  }

  const model::Model& model_;
  device::Device& device_;
  kernels::RopeTable rope_;
  int32_t chunk_;
  device::Buffer arena_, page_memory_;
  model::MtpScratch mtp_{};
  model::MtpPages pages_{};
  std::vector<std::byte*> table_;
};

// The trunk's residual after its last layer at every position but the newest, which has no token after it.
std::vector<float> trunk_residuals(std::span<const int32_t> tokens) {
  const ops::Trace trace = must_trace(tiny_engine("f32"), tokens, kTinyChunks, "t");
  const ops::TraceTensor& out = trace.at("t.layer_out");
  const auto last_layer = out.as<float>().last(out.shape[1] * out.shape[2]);
  return {last_layer.begin(), last_layer.end() - static_cast<ptrdiff_t>(out.shape[2])};
}

void compare(std::span<const float> logits, const Golden& golden, const std::string& name) {
  SCOPED_TRACE(name);
  const auto top = golden.at(name + "_top1").as<int32_t>();
  ASSERT_EQ(logits.size() % top.size(), 0u);
  const size_t vocab = logits.size() / top.size();
  for (size_t row = 0; row < top.size(); ++row) {
    const auto ours = logits.subspan(row * vocab, vocab);
    ASSERT_EQ(std::max_element(ours.begin(), ours.end()) - ours.begin(), top[row]) << "at position " << row;
  }
  EXPECT_LE(max_difference(logits.last(4 * vocab), golden.at(name + "_logits_last4").as<float>()), kTinyTolerance);
}

class Mtp : public testing::TestWithParam<const char*> {};

TEST_P(Mtp, BothReadingsOfTheHiddenNorm) {
  const std::string prompt = GetParam();
  const Golden& golden = tiny_golden();
  const auto tokens = golden.at(prompt + ".tokens").as<int32_t>();
  const std::vector<float> hidden = trunk_residuals(tokens);
  DraftHead head(tiny_engine("f32"), 128, 1024);
  compare(head.run(hidden, tokens.subspan(1), model::HiddenNorm::grouped, true), golden, prompt + ".mtp_grouped");
  compare(head.run(hidden, tokens.subspan(1), model::HiddenNorm::flat, true), golden, prompt + ".mtp_flat");
}

INSTANTIATE_TEST_SUITE_P(Prompts, Mtp, testing::ValuesIn(kTinyPrompts),
                         [](const auto& each) { return std::string(each.param); });

// A draft step is a chunk of one row that wants one row of logits; it must give what a prefill gives.
TEST(MtpHead, OneByOneEqualsAllAtOnce) {
  const auto tokens = tiny_golden().at("multi.tokens").as<int32_t>();
  const std::vector<float> hidden = trunk_residuals(tokens);
  DraftHead whole(tiny_engine("f32"), 128, 128), single(tiny_engine("f32"), 1, 128);
  EXPECT_EQ(whole.run(hidden, tokens.subspan(1), model::HiddenNorm::grouped, true),
            single.run(hidden, tokens.subspan(1), model::HiddenNorm::grouped, false));
}

}  // namespace
}  // namespace evros::tests
