// The fixtures opened as models: hyper-parameters against their configs, and every canonical tensor of the checkpoint
// against the GGUF that another converter made of the same weights.
#include "format/model_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/bytes.h"
#include "base/str.h"
#include "format/expected_tensors.h"

namespace evros::format {
namespace {

const std::string kSource = EVROS_SOURCE_DIR;
const std::string kMicroFolder = std::string(EVROS_BINARY_DIR) + "/micro/hf";
const std::string kTinyFolder = kSource + "/models/evros-tiny";
std::string micro_gguf(const std::string& type) { return cat(EVROS_BINARY_DIR, "/micro/gguf/micro-", type, ".gguf"); }

std::unique_ptr<ModelFile> open_or_die(const std::string& path) {
  auto model = open_model(io::real_io(), path);
  EXPECT_TRUE(model.ok()) << model.error().message;
  return model.ok() ? std::move(*model) : nullptr;
}

float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

/// The tensor's values as floats, `derive` applied.
std::vector<float> values_of(const ModelFile& model, const Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes());
  const Status read = model.read(tensor, 0, bytes);
  EXPECT_TRUE(read.ok()) << read.error().message;
  std::vector<float> out(tensor.elements());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = tensor.type == TensorType::f32 ? load<float>(&bytes[4 * i]) : bf16_to_float(load<uint16_t>(&bytes[2 * i]));
    if (tensor.derive == Derive::plus_one) out[i] += 1.0F;
    if (tensor.derive == Derive::neg_exp) out[i] = -std::exp(out[i]);
  }
  return out;
}

void expect_micro(const HyperParams& h) {
  EXPECT_EQ(h.layers, 8);
  EXPECT_EQ(h.hidden, 64);
  EXPECT_EQ(h.vocab, 512);
  EXPECT_EQ(h.context_length, 4096);
  EXPECT_EQ(h.rms_eps, 1e-6F);
  const auto L = LayerKind::linear, F = LayerKind::full;
  EXPECT_EQ(h.layer_kind, (std::vector{L, L, L, F, L, L, L, F}));
  EXPECT_EQ(h.compress_ratio, (std::vector{0, 0, 0, 4, 0, 0, 0, 4}));
  EXPECT_FALSE(h.tied_embeddings);
  EXPECT_EQ(h.hc_count, 4);
  EXPECT_EQ(h.hc_lowrank, 16);
  EXPECT_EQ(h.heads, 4);
  EXPECT_EQ(h.kv_heads, 2);
  EXPECT_EQ(h.key_dim, 32);
  EXPECT_EQ(h.value_dim, 32);
  EXPECT_EQ(h.rope_dims, 8);
  EXPECT_EQ(h.rope_theta, 1e7);
  EXPECT_EQ(h.rope_sections, (std::array{2, 1, 1, 0}));
  EXPECT_EQ(h.index_heads, 2);
  EXPECT_EQ(h.index_dim, 16);
  EXPECT_EQ(h.index_budget, 16);
  EXPECT_EQ(h.linear_key_heads, 2);
  EXPECT_EQ(h.linear_value_heads, 6);
  EXPECT_EQ(h.linear_key_dim, 16);
  EXPECT_EQ(h.linear_value_dim, 16);
  EXPECT_EQ(h.conv_kernel, 4);
  EXPECT_EQ(h.output_gate, GateActivation::sigmoid);
  EXPECT_EQ(h.experts, 8);
  EXPECT_EQ(h.experts_used, 3);
  EXPECT_EQ(h.expert_ff, 32);
  EXPECT_EQ(h.shared_ff, 32);
  EXPECT_TRUE(h.norm_topk_prob);
  ASSERT_EQ(h.ple.size(), 1U);
  EXPECT_EQ(h.ple[0].layer, 1);
  EXPECT_EQ(h.ple[0].multipliers, (std::vector<uint64_t>{4295158889763781, 17440218147737327, 1270917961434445}));
  EXPECT_EQ(h.ple[0].head_vocab, (std::vector<uint64_t>{1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061,
                                                        1063, 1069, 1087, 1091, 1093, 1097}));
  EXPECT_EQ(h.ple[0].head_offset, (std::vector<uint64_t>{0, 1009, 2022, 3041, 4062, 5093, 6126, 7165, 8214, 9265, 10326,
                                                         11389, 12458, 13545, 14636, 15729}));
  EXPECT_EQ(h.ngram_size, 3);
  EXPECT_EQ(h.heads_per_ngram, 8);
  EXPECT_EQ(h.ple_conv_kernel, 4);
  EXPECT_EQ(h.ple_row_width, 4);
  EXPECT_EQ(h.ple_eos, 2);
  EXPECT_EQ(h.ple_table_rows, 16896U);
  EXPECT_EQ(h.mtp_layers, 0);
}

TEST(ModelFile, MicroCheckpointHasTheDimensionsOfItsConfig) {
  const auto model = open_or_die(kMicroFolder);
  ASSERT_NE(model, nullptr);
  expect_micro(model->hyper());
  EXPECT_EQ(model->container(), "safetensors");
  EXPECT_EQ(model->text().eos_ids, (std::vector<int64_t>{2}));
  EXPECT_EQ(model->text().pad_id, 0);
  EXPECT_EQ(model->text().bos_id, -1);
}

TEST(ModelFile, MicroGgufsHaveTheDimensionsOfTheCheckpoint) {
  for (const char* type : {"f32", "q8_0", "q4_0"}) {
    const auto model = open_or_die(micro_gguf(type));
    ASSERT_NE(model, nullptr);
    expect_micro(model->hyper());
    EXPECT_EQ(model->container(), "GGUF v3");
    EXPECT_EQ(model->tensors().size(), 214U);
    EXPECT_EQ(model->text().tokens.size(), 512U);
    EXPECT_EQ(model->text().tokens[2], "<|endoftext|>");
    EXPECT_EQ(model->text().token_types[0], 3);
    EXPECT_EQ(model->text().pre, "qwen35");
    EXPECT_EQ(model->text().eos_ids, (std::vector<int64_t>{2}));
  }
  EXPECT_EQ(open_or_die(micro_gguf("q8_0"))->find("blk.0.attn_qkv.weight")->type, TensorType::q8_0);
}

TEST(ModelFile, EveryTensorOfTheCheckpointEqualsTheGgufMadeFromIt) {
  const auto checkpoint = open_or_die(kMicroFolder), gguf = open_or_die(micro_gguf("f32"));
  ASSERT_TRUE(checkpoint && gguf);
  EXPECT_EQ(checkpoint->tensors().size(), gguf->tensors().size());
  for (const Tensor& stored : gguf->tensors()) {
    const Tensor* mine = checkpoint->find(stored.name);
    ASSERT_NE(mine, nullptr) << stored.name;
    EXPECT_EQ(mine->ne, stored.ne) << stored.name;
    EXPECT_EQ(mine->dims, stored.dims) << stored.name;
    const std::vector<float> want = values_of(*gguf, stored), got = values_of(*checkpoint, *mine);
    ASSERT_EQ(want.size(), got.size()) << stored.name;
    for (size_t i = 0; i < want.size(); ++i) {
      // exp differs in the last place between libraries; everything else is exact.
      const float slack = mine->derive == Derive::neg_exp ? 1e-6F * std::abs(want[i]) : 0.0F;
      ASSERT_NEAR(want[i], got[i], slack) << stored.name << " element " << i;
    }
  }
}

TEST(ModelFile, EvrosTinyOpensFromItsShardsWithItsMtpBlock) {
  const auto model = open_or_die(kTinyFolder);
  ASSERT_NE(model, nullptr);
  const HyperParams& h = model->hyper();
  EXPECT_EQ(h.mtp_layers, 1);
  EXPECT_EQ(h.ple_row_width, 32);
  EXPECT_EQ(h.ple_embed_dim(), 512);
  EXPECT_EQ(h.ple_table_rows, 4U * 16704);
  EXPECT_EQ(h.compress_ratio[3], 16);
  EXPECT_EQ(h.ple_eos, 4087);
  EXPECT_EQ(model->files().size(), 3U);
  EXPECT_EQ(model->text().eos_ids, (std::vector<int64_t>{4089, 4087}));
  EXPECT_EQ(model->sampling().temperature, 0.7F);
  EXPECT_EQ(model->sampling().top_k, 20);
  EXPECT_FALSE(model->text().tokenizer_json.empty());
  EXPECT_NE(model->text().chat_template.find("im_start"), std::string::npos);
  // The card's parameter counts: 12,622,104 and 1,473,792.
  uint64_t trunk = 0, mtp = 0;
  for (const Tensor& tensor : model->tensors()) (tensor.name.starts_with("blk.8.") ? mtp : trunk) += tensor.elements();
  EXPECT_EQ(trunk, 12'622'104U);
  EXPECT_EQ(mtp, 1'473'792U);
}

}  // namespace
}  // namespace evros::format
