#include "format/expected_tensors.h"

#include <gtest/gtest.h>

#include <set>

#include "format/test_model.h"

namespace evros::format {
namespace {

/// The published model (docs/model.md 1.1).
HyperParams real_model() {
  HyperParams h;
  h.layers = 48, h.hidden = 2560, h.vocab = 248320, h.context_length = 262144, h.rms_eps = 1e-6F;
  for (int i = 0; i < 48; ++i) {
    h.layer_kind.push_back(i % 4 == 3 ? LayerKind::full : LayerKind::linear);
    h.compress_ratio.push_back(i % 4 == 3 ? 4 : 0);
  }
  h.hc_count = 4, h.hc_lowrank = 320;
  h.heads = 24, h.kv_heads = 2, h.key_dim = 256, h.value_dim = 256, h.rope_dims = 64, h.rope_theta = 1e7,
  h.rope_sections = {11, 11, 10, 0};
  h.index_heads = 4, h.index_dim = 128, h.index_budget = 2048;
  h.linear_key_heads = 16, h.linear_value_heads = 48, h.linear_key_dim = 128, h.linear_value_dim = 128,
  h.conv_kernel = 4;
  h.experts = 512, h.experts_used = 10, h.expert_ff = 640, h.shared_ff = 640;
  PleLayer ple{1, {23703573157769, 20109073645365, 8052911324071}, {}, {}};
  for (uint64_t i = 0; i < 16; ++i) ple.head_vocab.push_back(20000003), ple.head_offset.push_back(i * 20000003);
  h.ple = {ple};
  h.ngram_size = 3, h.heads_per_ngram = 8, h.ple_conv_kernel = 4, h.ple_row_width = 160, h.ple_eos = 248044,
  h.ple_table_rows = 320001536;
  return h;
}

uint64_t elements(const std::vector<TensorShape>& list, std::string_view prefix = "") {
  uint64_t sum = 0;
  for (const TensorShape& t : list) sum += t.name.starts_with(prefix) ? t.elements() : 0;
  return sum;
}

TEST(ExpectedTensors, ThePublishedModelHasItsPublishedCounts) {
  const HyperParams h = real_model();
  const Status valid = validate(h, "real", KeyStyle::gguf);
  ASSERT_TRUE(valid.ok()) << valid.error().message;
  const auto list = expected_tensors(h);
  EXPECT_EQ(list.size(), 1224U);
  EXPECT_EQ(elements(list), 176'943'899'520U);
  EXPECT_EQ(elements(list, "per_layer_token_embd"), 51'200'245'760U);
  EXPECT_EQ(elements(list, "token_embd"), 635'699'200U);
  EXPECT_EQ(elements(list, "blk.5.ffn_gate_exps") + elements(list, "blk.5.ffn_up_exps") +
                elements(list, "blk.5.ffn_down_exps"),
            2'516'582'400U);
}

TEST(ExpectedTensors, ThePublishedMtpBlockHasItsPublishedCount) {
  HyperParams h = real_model();
  h.mtp_layers = 1;
  EXPECT_EQ(elements(expected_tensors(h), "blk.48."), 2'607'150'848U);
}

TEST(ExpectedTensors, NamesAreUniqueAndTiedModelsLackOnlyTheHead) {
  HyperParams h = real_model();
  const size_t untied = expected_tensors(h).size();
  h.tied_embeddings = true;
  const auto list = expected_tensors(h);
  EXPECT_EQ(list.size(), untied - 1);
  std::set<std::string> names;
  for (const TensorShape& t : list) EXPECT_TRUE(names.insert(t.name).second) << t.name;
  EXPECT_FALSE(names.contains("output.weight"));
}

/// A rule broken, and the key that says so in both spellings.
struct Rule {
  std::function<void(HyperParams&)> damage;
  const char *gguf, *config;
};
const Rule kRules[] = {
    {[](HyperParams& h) { h.layers = 0; }, "qwen4exp.block_count", "num_hidden_layers"},
    {[](HyperParams& h) { h.hidden = -1; }, "qwen4exp.embedding_length", "hidden_size"},
    {[](HyperParams& h) { h.hidden = 1 << 30; }, "qwen4exp.embedding_length", "hidden_size"},
    {[](HyperParams& h) { h.vocab = 0; }, "qwen4exp.vocab_size", "vocab_size"},
    {[](HyperParams& h) { h.rms_eps = 0; }, "qwen4exp.attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {[](HyperParams& h) { h.rms_eps = std::numeric_limits<float>::quiet_NaN(); }, "layer_norm_rms_epsilon",
     "rms_norm_eps"},
    {[](HyperParams& h) { h.hc_count = 0; }, "qwen4exp.hyper_connection.count", "hc_count"},
    {[](HyperParams& h) { h.hc_count = 65; }, "qwen4exp.hyper_connection.count", "hc_count"},
    {[](HyperParams& h) { h.hc_lowrank = 0; }, "qwen4exp.hyper_connection.low_rank", "hc_lowrank"},
    {[](HyperParams& h) { h.layer_kind.pop_back(); }, "qwen4exp.attention.recurrent_layers", "layer_types"},
    {[](HyperParams& h) { h.compress_ratio.pop_back(); }, "qwen4exp.attention.compress_ratios",
     "indexer_compress_ratio"},
    {[](HyperParams& h) { h.compress_ratio[0] = 2; }, "compress_ratios", "indexer_compress_ratio"},
    {[](HyperParams& h) { h.compress_ratio[1] = -1; }, "compress_ratios", "indexer_compress_ratio"},
    {[](HyperParams& h) {
       h.index_budget = 1 << 16, h.layers = 2, h.layer_kind = {LayerKind::full, LayerKind::full};
       h.compress_ratio = {4099, 4111};  // primes: pages of 16,850,989 tokens
     },
     "compress_ratios", "indexer_compress_ratio"},
    {[](HyperParams& h) { h.heads = 3, h.kv_heads = 2; }, "qwen4exp.attention.head_count", "num_attention_heads"},
    {[](HyperParams& h) { h.kv_heads = 0; }, "qwen4exp.attention.head_count_kv", "num_key_value_heads"},
    {[](HyperParams& h) { h.value_dim = 8; }, "qwen4exp.attention.value_length", "head_dim"},
    {[](HyperParams& h) { h.rope_dims = 3; }, "qwen4exp.rope.dimension_count", "partial_rotary_factor"},
    {[](HyperParams& h) { h.rope_dims = 6; }, "qwen4exp.rope.dimension_count", "partial_rotary_factor"},
    {[](HyperParams& h) { h.rope_theta = 0; }, "qwen4exp.rope.freq_base", "rope_theta"},
    {[](HyperParams& h) { h.index_heads = 0; }, "qwen4exp.attention.indexer.head_count", "indexer_n_heads"},
    {[](HyperParams& h) { h.index_dim = 1; }, "qwen4exp.attention.indexer.key_length", "indexer_head_dim"},
    {[](HyperParams& h) { h.index_budget = 1; }, "qwen4exp.attention.indexer.top_k", "indexer_budget"},
    {[](HyperParams& h) { h.linear_value_heads = 3; }, "qwen4exp.ssm.time_step_rank", "linear_num_value_heads"},
    {[](HyperParams& h) { h.linear_key_heads = 0; }, "qwen4exp.ssm.group_count", "linear_num_key_heads"},
    {[](HyperParams& h) { h.conv_kernel = 1; }, "qwen4exp.ssm.conv_kernel", "linear_conv_kernel_dim"},
    {[](HyperParams& h) { h.experts_used = 4; }, "qwen4exp.expert_used_count", "num_experts_per_tok"},
    {[](HyperParams& h) { h.experts = 0; }, "qwen4exp.expert_count", "num_experts"},
    {[](HyperParams& h) { h.mtp_layers = 2; }, "qwen4exp.nextn_predict_layers", "mtp_num_hidden_layers"},
    {[](HyperParams& h) { h.ngram_size = 9; }, "qwen4exp.ple.ngram_size", "ngram_size"},
    {[](HyperParams& h) { h.heads_per_ngram = 1 << 30; }, "qwen4exp.ple.heads_per_ngram", "heads_per_ngram"},
    {[](HyperParams& h) { h.ple_conv_kernel = 0; }, "qwen4exp.ple.conv_kernel", "ple_conv_kernel_size"},
    {[](HyperParams& h) { h.ple_eos = 16; }, "qwen4exp.ple.eos_token_id", "eos_token_id"},
    {[](HyperParams& h) { h.ple[0].layer = 2; }, "qwen4exp.ple.layers is 2", "ple_layer_ids is 3"},
    {[](HyperParams& h) { h.ple[0].layer = 1; }, "linear", "linear"},
    {[](HyperParams& h) { h.ple.push_back(h.ple[0]); }, "ascending", "ascending"},
    {[](HyperParams& h) { h.ple[0].multipliers.pop_back(); }, "qwen4exp.ple.layer_multipliers", "layer_multipliers"},
    {[](HyperParams& h) { h.ple[0].multipliers[0] = (uint64_t{1} << 63) / 16; }, "qwen4exp.ple.layer_multipliers",
     "layer_multipliers"},
    {[](HyperParams& h) { h.ple[0].head_vocab[1] = 0; }, "qwen4exp.ple.head_vocab_sizes", "ngram_heads_vocab_sizes"},
    {[](HyperParams& h) { h.ple[0].head_vocab.clear(); }, "qwen4exp.ple.head_vocab_sizes", "ngram_heads_vocab_sizes"},
    {[](HyperParams& h) { h.ple[0].head_offset[1] = 5; }, "qwen4exp.ple.head_offsets", "ngram_heads_offsets"},
    {[](HyperParams& h) { h.ple[0].head_offset[1] = ~uint64_t{0}; }, "qwen4exp.ple.head_offsets",
     "ngram_heads_offsets"},
    {[](HyperParams& h) { h.ple_table_rows = 0; }, "n-gram table", "n-gram table"},
};

TEST(HyperParams, EachRuleIsRefusedByItsKeyInBothSpellings) {
  int number = 0;
  for (const Rule& c : kRules) {
    HyperParams h = test::small_hyper();
    c.damage(h);
    for (const KeyStyle style : {KeyStyle::gguf, KeyStyle::config}) {
      const Status status = validate(h, "some.file", style);
      ASSERT_FALSE(status.ok()) << number;
      EXPECT_EQ(status.error().code, Code::bad_file);
      EXPECT_TRUE(status.error().message.starts_with("some.file: key ")) << status.error().message;
      EXPECT_NE(status.error().message.find(style == KeyStyle::gguf ? c.gguf : c.config), std::string::npos)
          << status.error().message;
      EXPECT_NE(status.error().message.find("wanted"), std::string::npos);
    }
    ++number;
  }
}

TEST(HyperParams, UnusualButMeaningfulModelsAreAccepted) {
  const auto accepted = [](const std::function<void(HyperParams&)>& change) {
    HyperParams h = test::small_hyper();
    change(h);
    const Status status = validate(h, "f", KeyStyle::gguf);
    return status.ok() ? std::string("ok") : status.error().message;
  };
  EXPECT_EQ(accepted([](HyperParams& h) { h.hc_count = 1; }), "ok");
  EXPECT_EQ(accepted([](HyperParams& h) { h.ple.clear(); }), "ok");
  EXPECT_EQ(accepted([](HyperParams& h) { h.compress_ratio[1] = 0, h.index_heads = h.index_dim = h.index_budget = 0; }),
            "ok");
  EXPECT_EQ(accepted([](HyperParams& h) {
              h.ngram_size = 4, h.heads_per_ngram = 1, h.ple[0] = {0, {1, 3, 5, 7}, {2, 3, 4}, {0, 2, 5}};
            }),
            "ok");
  EXPECT_EQ(
      accepted([](HyperParams& h) {
        h.layer_kind[1] = LayerKind::linear, h.compress_ratio[1] = 0, h.ple.push_back({1, {1, 3}, {2, 3}, {4, 6}});
      }),
      "ok");
}

}  // namespace
}  // namespace evros::format
