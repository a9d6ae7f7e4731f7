// The sparse file of the real shape: what the published facts say about it (docs/model.md), and that reading it works.
#include "ops/synth.h"

#include <ctime>
#include <map>

#include "engine/engine.h"
#include "engine/plan.h"
#include "engine/text_kit.h"
#include "format/gguf.h"
#include "io/memory_io.h"
#include "model/ngram.h"
#include "ops/synth_text.h"
#include "ops/test_model_files.h"
#include "pages/row_store.h"

namespace evros::ops {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)
using format::TensorType;

/// One set for all tests of the file.
class Synth : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>("synth");
    const auto done = synth_real(io::real_io(), folder_->path("real"), {});
    ASSERT_TRUE(done.ok()) << done.error().message;
    summary_ = *done;
    model_ = open_or_die(io::real_io(), summary_.paths.at(0));
  }
  static void TearDownTestSuite() {
    model_.reset();
    folder_.reset();
  }
  void SetUp() override { ASSERT_NE(model_, nullptr); }

  static std::unique_ptr<TemporaryFolder> folder_;
  static std::unique_ptr<format::ModelFile> model_;
  static SynthSummary summary_;
};
std::unique_ptr<TemporaryFolder> Synth::folder_;
std::unique_ptr<format::ModelFile> Synth::model_;
SynthSummary Synth::summary_;

TEST_F(Synth, HasThePublishedTensorsElementsAndTypes) {
  EXPECT_EQ(model_->tensors().size(), 1224u);
  uint64_t elements = 0, bytes = 0;
  std::map<TensorType, int> census;
  for (const format::Tensor& tensor : model_->tensors()) {
    elements += tensor.elements();
    bytes += tensor.bytes();
    ++census[tensor.type];
  }
  EXPECT_EQ(elements, 176'943'899'520u);
  EXPECT_EQ(census[TensorType::q4_k], 94);
  EXPECT_EQ(census[TensorType::q5_k], 2);
  EXPECT_EQ(census[TensorType::q5_1], 43);
  EXPECT_EQ(census[TensorType::iq4_nl], 1);
  EXPECT_EQ(census[TensorType::q8_0], 503);
  EXPECT_EQ(census[TensorType::f32] + census[TensorType::bf16], 581);
  EXPECT_EQ(census.size(), 7u);
  // The published file of this mix is 111,334,654,784 bytes long; headers differ with the vocabulary's text.
  EXPECT_NEAR(static_cast<double>(summary_.apparent_bytes), 111'334'654'784.0, 16e6);
  EXPECT_LT(bytes, summary_.apparent_bytes);
}

TEST_F(Synth, HasThePublishedHyperParameters) {
  const format::HyperParams& h = model_->hyper();
  EXPECT_EQ(describe(h), describe(real_shape()));
  EXPECT_EQ(h.layers, 48);
  EXPECT_EQ(std::count(h.layer_kind.begin(), h.layer_kind.end(), format::LayerKind::full), 12);
  EXPECT_EQ(h.hidden, 2560);
  EXPECT_EQ(h.vocab, 248320);
  EXPECT_EQ(h.conv_channels(), 10240);
  EXPECT_EQ(h.wide(), 10240);
  EXPECT_EQ(h.ple_embed_dim(), 2560);
  EXPECT_EQ(h.rope_dims, 64);
  EXPECT_EQ(h.ple.at(0).head_offset.back(), 300001275u);
  EXPECT_EQ(h.ple.at(0).head_offset.back() + h.ple.at(0).head_vocab.back(), 320001446u);
  EXPECT_EQ(h.ple_table_rows, 320001536u);
  EXPECT_EQ(model_->sampling().top_k, 20);
  EXPECT_EQ(model_->text().eos_ids, (std::vector<int64_t>{248046, 248044}));
  EXPECT_EQ(model_->text().tokens.size(), 248320u);
  EXPECT_EQ(model_->text().merges.size(), 247587u);
}

TEST_F(Synth, IsASplitSetWhoseFirstFileHoldsMetadataAlone) {
  ASSERT_EQ(summary_.paths.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(summary_.paths[i].ends_with(cat("real-0000", i + 1, "-of-00004.gguf"))) << summary_.paths[i];
    const auto file = io::real_io().open(summary_.paths[i]);
    ASSERT_TRUE(file.ok());
    const auto header = format::read_gguf_header(**file);
    ASSERT_TRUE(header.ok()) << header.error().message;
    EXPECT_EQ(header->tensors.empty(), i == 0);
    EXPECT_EQ(header->metadata.entries().size() > 3, i == 0);
  }
}

TEST_F(Synth, TakesAlmostNoDisk) {
  uint64_t taken = 0;
  for (const std::string& path : summary_.paths) taken += (*io::real_io().open(path))->allocated_bytes();
  EXPECT_LT(taken, uint64_t{64} << 20);
  EXPECT_GT(taken, uint64_t{1} << 20);
}

// In seconds of work, not of the clock: a busy machine must not fail it.
TEST_F(Synth, OpensInAMoment) {
  const std::clock_t start = std::clock();
  const auto again = open_or_die(io::real_io(), summary_.paths[2]);  // any file of the set
  EXPECT_LT(std::clock() - start, 2 * CLOCKS_PER_SEC);
  EXPECT_EQ(again->tensors().size(), 1224u);
}

TEST_F(Synth, TheVocabularyIsOneThatATokenizerAccepts) {
  const auto tokenizer = engine::load_tokenizer(*model_);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->vocab_size(), 248320);
  EXPECT_EQ(tokenizer->find("<|im_end|>"), 248046);
  EXPECT_EQ(tokenizer->find("</think>"), 248069);
  EXPECT_EQ(tokenizer->find("<|audio_pad|>"), 248076);
  EXPECT_FALSE(tokenizer->is_unused(248076));
  EXPECT_TRUE(tokenizer->is_unused(248077));
  const std::string text = "Any text at all.<|im_end|>\n";
  const auto ids = tokenizer->encode(text);
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(*tokenizer->decode(*ids), text);
}

TEST_F(Synth, RowsBeyondEveryOffsetReadBackAsWritten) {
  const format::Tensor* table = model_->find("per_layer_token_embd.weight");
  ASSERT_NE(table, nullptr);
  const auto store = pages::RowStore::create(*model_, *table, {});
  ASSERT_TRUE(store.ok()) << store.error().message;
  EXPECT_EQ((*store)->rows(), 320001536u);
  EXPECT_EQ((*store)->row_bytes(), kSynthRowBytes);
  const std::vector<uint64_t> rows = synth_rows();
  EXPECT_EQ(rows.front(), 0u);
  EXPECT_EQ(rows.back(), 320001535u);
  for (const int shift : {31, 32}) {
    EXPECT_TRUE(std::any_of(rows.begin(), rows.end(),
                            [&](uint64_t row) {
                              return row * kSynthRowBytes < uint64_t{1} << shift &&
                                     (row + 1) * kSynthRowBytes > uint64_t{1} << shift;
                            }))
        << "a row across byte 2^" << shift;
  }
  const auto lease = (*store)->acquire(rows);
  ASSERT_TRUE(lease.ok()) << lease.error().message;
  for (size_t i = 0; i < rows.size(); ++i) {
    std::array<std::byte, kSynthRowBytes> seen{}, wanted{};
    lease->copy_row(i, seen.data());
    synth_row(rows[i], wanted);
    EXPECT_EQ(seen, wanted) << rows[i];
  }
}

TEST_F(Synth, TheRowsOfThePublishedTestVectorsAreThere) {
  constexpr int64_t kEnd = kSynthEndOfText;
  const std::vector<uint64_t> written = synth_rows();
  const std::vector<std::vector<int64_t>> newest_first = {{9707, kEnd, kEnd}, {3, 2, 1},    {5, kEnd, 7},
                                                          {kEnd, 2, 1},       {5, 7, kEnd}, {198, 846, 248045}};
  std::vector<uint64_t> rows(16);
  for (const std::vector<int64_t>& window : newest_first) {
    model::ngram_rows(model_->hyper(), model_->hyper().ple[0], window, rows);
    for (const uint64_t row : rows) EXPECT_TRUE(std::binary_search(written.begin(), written.end(), row)) << row;
  }
}

TEST_F(Synth, RowsThatWereNotWrittenAreZero) {
  const format::Tensor* table = model_->find("per_layer_token_embd.weight");
  const auto store = pages::RowStore::create(*model_, *table, {});
  ASSERT_TRUE(store.ok());
  const auto lease = (*store)->acquire(std::vector<uint64_t>{12345, 200000000, 320001533});
  ASSERT_TRUE(lease.ok());
  for (size_t i = 0; i < 3; ++i) {
    std::array<std::byte, kSynthRowBytes> seen{};
    seen.fill(std::byte{1});
    lease->copy_row(i, seen.data());
    EXPECT_EQ(seen, (std::array<std::byte, kSynthRowBytes>{}));
  }
}

TEST_F(Synth, EveryTypeOfThePublishedMixCanRun) {
  engine::EngineOptions options;
  options.context = 4096;
  const auto plan = engine::make_plan(*model_, options);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
}

TEST(SynthElsewhere, AFileSystemWithoutHolesIsRefusedBeforeItIsFilled) {
  io::MemoryIo io;  // keeps every byte, and says so
  const auto done = synth_real(io, "d/real.gguf", {});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, Code::unsupported);
  EXPECT_NE(done.error().message.find("no holes"), std::string::npos) << done.error().message;
  EXPECT_FALSE(io.is_folder("d"));  // nothing left in it
}

}  // namespace
}  // namespace evros::ops
