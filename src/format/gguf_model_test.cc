// GGUF files as models: what is accepted, and every way in which metadata and tensors can contradict each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/bytes.h"
#include "format/model_file.h"
#include "format/test_model.h"

namespace evros::format {
namespace {

using test::RawGguf;

Result<std::unique_ptr<ModelFile>> open_bytes(const std::string& bytes) {
  io::MemoryIo io;
  io.put("m.gguf", bytes);
  return open_model(io, "m.gguf");
}

TEST(GgufModel, TheSmallModelOpensWithWhatItWasMadeFrom) {
  const auto model = open_bytes(test::small_gguf().bytes());
  ASSERT_TRUE(model.ok()) << model.error().message;
  const HyperParams &h = (*model)->hyper(), want = test::small_hyper();
  EXPECT_EQ(h.layer_kind, want.layer_kind);
  EXPECT_EQ(h.linear_value_dim, 2);
  EXPECT_EQ(h.ple[0].head_offset, want.ple[0].head_offset);
  EXPECT_EQ(h.ple_table_rows, 9U);
  EXPECT_EQ((*model)->find("blk.0.ple_key.weight")->ne[0], 12U);
  EXPECT_EQ((*model)->find("absent"), nullptr);
  EXPECT_EQ((*model)->name(), "m.gguf");
}

TEST(GgufModel, OneStreamTiedEmbeddingsDenseLayersTwoPleLayersAndMtpOpen) {
  HyperParams h = test::small_hyper();
  h.hc_count = 1;
  h.tied_embeddings = true;
  h.layers = 3;
  h.layer_kind = {LayerKind::linear, LayerKind::full, LayerKind::linear};
  h.compress_ratio = {0, 0, 0};
  h.ple.push_back({2, {7, 9}, {2, 2}, {9, 11}});
  h.ple_table_rows = 13;
  h.mtp_layers = 1;
  const auto model = open_bytes(test::small_gguf(h).bytes());
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_TRUE((*model)->hyper().tied_embeddings);
  EXPECT_EQ((*model)->hyper().layers, 3);
  EXPECT_EQ((*model)->hyper().mtp_layers, 1);
  ASSERT_EQ((*model)->hyper().ple.size(), 2U);
  EXPECT_EQ((*model)->hyper().ple[1].layer, 2);
  EXPECT_EQ((*model)->hyper().ple[1].multipliers, (std::vector<uint64_t>{7, 9}));
  EXPECT_EQ((*model)->hyper().ple[1].head_offset, (std::vector<uint64_t>{9, 11}));
}

TEST(GgufModel, EvrosKeysSayWhatThePublishedKeysCannot) {
  RawGguf g = test::small_gguf();
  g.set("evros.output_gate_type", GgufValue::string("silu"));
  g.set("evros.norm_topk_prob", GgufValue::boolean(false));
  g.set("evros.tokenizer.nfc", GgufValue::boolean(false));
  g.set("tokenizer.ggml.eos_token_id", GgufValue::u32(3));
  const uint32_t ids[] = {5, 3};
  g.set("evros.eos_token_ids", GgufValue::array(std::span<const uint32_t>(ids)));
  const auto model = open_bytes(g.bytes());
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ((*model)->hyper().output_gate, GateActivation::silu);
  EXPECT_FALSE((*model)->hyper().norm_topk_prob);
  EXPECT_EQ((*model)->text().nfc, false);
  EXPECT_EQ((*model)->text().eos_ids, (std::vector<int64_t>{5, 3}));
}

// An end of a reply that no token is would let replies run on: it is said, and text is refused (engine/text_kit.h).
TEST(GgufModel, EveryEndOfAReplyThatIsNoTokenIsNamedWithItsKey) {
  EXPECT_EQ((*open_bytes(test::small_gguf().bytes()))->text().wrong_end, "");
  const char *list = "evros.eos_token_ids", *single = "tokenizer.ggml.eos_token_id";
  const uint32_t beyond[] = {5, 16}, fine[] = {5};
  const int32_t negative[] = {-1};
  const std::vector<std::pair<const char*, GgufValue>> cases = {
      {single, GgufValue::u32(16)},
      {"tokenizer.ggml.eot_token_id", GgufValue::u32(99999)},
      {"tokenizer.ggml.eom_token_id", GgufValue::i32(-1)},
      {single, GgufValue::string("5")},
      {single, GgufValue::array(std::span<const uint32_t>(fine))},
      {list, GgufValue::array(std::span<const uint32_t>(beyond))},
      {list, GgufValue::array(std::span<const int32_t>(negative))},
      {list, GgufValue::u32(5)}};
  for (const auto& [key, value] : cases) {
    RawGguf g = test::small_gguf();
    g.set(key, value);
    const auto model = open_bytes(g.bytes());
    ASSERT_TRUE(model.ok()) << model.error().message;
    const std::string& said = (*model)->text().wrong_end;
    for (const std::string& word :
         {std::string("m.gguf: key "), std::string(key), value.short_text(), std::string("0 to 15")})
      EXPECT_NE(said.find(word), std::string::npos) << word << " in " << said;
  }
}

TEST(GgufModel, ExpertWidthMayBeAnArrayOfOneValue) {
  RawGguf g = test::small_gguf();
  const int32_t widths[] = {4, 4};
  g.set("qwen4exp.expert_feed_forward_length", GgufValue::array(std::span<const int32_t>(widths)));
  EXPECT_TRUE(open_bytes(g.bytes()).ok());
}

TEST(GgufModel, FusedGateAndUpExpertsAppearAsTwoTensors) {
  RawGguf g = test::small_gguf();
  g.tensor("blk.1.ffn_gate_exps.weight").ne = {8, 8, 3};
  g.tensor("blk.1.ffn_gate_exps.weight").name = "blk.1.ffn_gate_up_exps.weight";
  std::erase_if(g.tensors, [](const auto& t) { return t.name == "blk.1.ffn_up_exps.weight"; });
  g.place();
  std::string bytes = g.bytes();
  // Running numbers in the fused tensor: expert e, row r, column c is 64 e + 8 r + c.
  const size_t data = bytes.size() - g.data_bytes + g.tensor("blk.1.ffn_gate_up_exps.weight").offset;
  for (uint32_t i = 0; i < 192; ++i) store(&bytes[data + 4 * i], i);
  const auto model = open_bytes(bytes);
  ASSERT_TRUE(model.ok()) << model.error().message;
  for (const uint32_t half : {0U, 1U}) {
    const Tensor* t = (*model)->find(half == 0 ? "blk.1.ffn_gate_exps.weight" : "blk.1.ffn_up_exps.weight");
    ASSERT_NE(t, nullptr);
    EXPECT_EQ(t->ne, (std::array<uint64_t, 4>{8, 4, 3, 1}));
    EXPECT_EQ(t->stored_name, "blk.1.ffn_gate_up_exps.weight");
    std::vector<uint32_t> values(96);
    ASSERT_TRUE((*model)->read(*t, 0, std::as_writable_bytes(std::span(values))).ok());
    for (uint32_t i = 0; i < 96; ++i) ASSERT_EQ(values[i], i / 32 * 64 + half * 32 + i % 32) << i;
    // And from the middle of one expert into the next.
    uint32_t two[2];
    ASSERT_TRUE((*model)->read(*t, 31 * 4, std::as_writable_bytes(std::span(two))).ok());
    EXPECT_EQ(two[0], half * 32 + 31);
    EXPECT_EQ(two[1], 64 + half * 32);
  }
}

struct Damage {
  const char* name;
  std::function<void(RawGguf&)> apply;
  const char *mentions, *wanted;
};

GgufValue list(std::vector<int32_t> values) { return GgufValue::array(std::span<const int32_t>(values)); }
GgufValue wide(std::vector<uint64_t> values) { return GgufValue::array(std::span<const uint64_t>(values)); }
std::function<void(RawGguf&)> set(const char* key, GgufValue value) {
  return [key, value](RawGguf& g) { g.set(cat("qwen4exp.", key), value); };
}

const std::vector<Damage> kDamages = {
    {"other architecture", [](RawGguf& g) { g.set("general.architecture", GgufValue::string("llama")); },
     "general.architecture", "qwen4exp"},
    {"no architecture", [](RawGguf& g) { g.erase("general.architecture"); }, "general.architecture", "absent"},
    {"missing key", [](RawGguf& g) { g.erase("qwen4exp.ssm.state_size"); }, "qwen4exp.ssm.state_size", "absent"},
    {"text for a number", set("embedding_length", GgufValue::string("8")), "qwen4exp.embedding_length", "integer"},
    {"array for a number", set("embedding_length", list({8})), "qwen4exp.embedding_length", "one integer"},
    {"number beyond 32 bits", set("embedding_length", GgufValue::u64(uint64_t{1} << 40)), "qwen4exp.embedding_length",
     "32-bit"},
    {"number beyond 63 bits", set("embedding_length", GgufValue::u64(~uint64_t{0})), "qwen4exp.embedding_length",
     "32-bit"},
    {"layer out of range", set("ple.layers", list({2})), "qwen4exp.ple.layers", "0 to 1"},
    {"negative layer", set("ple.layers", list({-1})), "qwen4exp.ple.layers", "0 to 1"},
    {"PLE on a full layer", set("ple.layers", list({1})), "qwen4exp.ple.layers", "linear"},
    {"two PLE layers, arrays for one", set("ple.layers", list({0, 1})), "qwen4exp.ple.layer_multipliers", "array of 4"},
    {"n-gram size 0", set("ple.ngram_size", GgufValue::u32(0)), "qwen4exp.ple.ngram_size", "2 to 8"},
    {"n-gram size huge", set("ple.ngram_size", GgufValue::u32(1u << 31)), "qwen4exp.ple.ngram_size", "integer"},
    {"head count overflow", set("ple.heads_per_ngram", GgufValue::u32(0x7fffffff)), "qwen4exp.ple.heads_per_ngram",
     "4096"},
    {"short multipliers", set("ple.layer_multipliers", wide({1})), "qwen4exp.ple.layer_multipliers", "array of 2"},
    {"short head sizes", set("ple.head_vocab_sizes", wide({1})), "qwen4exp.ple.head_vocab_sizes", "array of 2"},
    {"long offsets", set("ple.head_offsets", wide({0, 3, 8})), "qwen4exp.ple.head_offsets", "array of 2"},
    {"negative offset", set("ple.head_offsets", list({0, -3})), "qwen4exp.ple.head_offsets", "non-negative"},
    {"head range beyond the table", set("ple.head_offsets", wide({0, 5})), "qwen4exp.ple.head_offsets", "at most 4"},
    {"head range that wraps", set("ple.head_offsets", wide({0, ~uint64_t{1}})), "qwen4exp.ple.head_offsets",
     "at most 4"},
    {"multiplier beyond 2^63 / vocab", set("ple.layer_multipliers", wide({1, uint64_t{1} << 60})),
     "qwen4exp.ple.layer_multipliers", "2^63"},
    {"negative ratio", set("attention.compress_ratios", list({0, -4})), "qwen4exp.attention.compress_ratios", "0 to"},
    {"ratio on a linear layer", set("attention.compress_ratios", list({2, 2})), "qwen4exp.attention.compress_ratios",
     "0 at a linear"},
    {"short ratios", set("attention.compress_ratios", list({0})), "qwen4exp.attention.compress_ratios", "2 blocks"},
    {"absent ratios", [](RawGguf& g) { g.erase("qwen4exp.attention.compress_ratios"); },
     "qwen4exp.attention.compress_ratios", "absent"},
    {"interval against ssm_a", set("full_attention_interval", GgufValue::u32(1)), "qwen4exp.full_attention_interval",
     "blk.0.ssm_a"},
    {"recurrent layers against ssm_a", set("attention.recurrent_layers", list({1, 1})),
     "qwen4exp.attention.recurrent_layers", "layer 1"},
    {"short recurrent layers", set("attention.recurrent_layers", list({1})), "qwen4exp.attention.recurrent_layers",
     "2 blocks"},
    {"odd rope", set("rope.dimension_count", GgufValue::u32(3)), "qwen4exp.rope.dimension_count", "even"},
    {"short sections", set("rope.dimension_sections", list({1, 0})), "qwen4exp.rope.dimension_sections", "4 integers"},
    {"heads", set("attention.head_count_kv", GgufValue::u32(0)), "qwen4exp.attention.head_count_kv", "1 to"},
    {"time step rank 0", set("ssm.time_step_rank", GgufValue::u32(0)), "qwen4exp.ssm", "multiple"},
    {"inner size", set("ssm.inner_size", GgufValue::u32(7)), "qwen4exp.ssm.inner_size", "multiple"},
    {"different expert widths", set("expert_feed_forward_length", list({4, 5})), "qwen4exp.expert_feed_forward_length",
     "same width"},
    {"vocabulary against embedding", set("vocab_size", GgufValue::u32(17)), "qwen4exp.vocab_size", "16"},
    {"two MTP blocks", set("nextn_predict_layers", GgufValue::u32(2)), "qwen4exp.nextn_predict_layers", "0 or 1"},
    {"all blocks are MTP",
     [](RawGguf& g) {
       g.set("qwen4exp.block_count", GgufValue::u32(1)), g.set("qwen4exp.nextn_predict_layers", GgufValue::u32(1));
     },
     "qwen4exp.block_count", "beside"},
    {"unknown gate", [](RawGguf& g) { g.set("evros.output_gate_type", GgufValue::string("tanh")); },
     "evros.output_gate_type", "sigmoid"},
    {"gate as number", [](RawGguf& g) { g.set("evros.output_gate_type", GgufValue::u32(1)); }, "evros.output_gate_type",
     "sigmoid"},
    {"norm as number", [](RawGguf& g) { g.set("evros.norm_topk_prob", GgufValue::u32(1)); }, "evros.norm_topk_prob",
     "bool"},
    {"more tokens than rows",
     [](RawGguf& g) { g.set("tokenizer.ggml.tokens", GgufValue::array(std::vector<std::string>(17, "x"))); },
     "tokenizer.ggml.tokens", "16"},
    {"tokens as numbers", [](RawGguf& g) { g.set("tokenizer.ggml.tokens", list({1})); }, "tokenizer.ggml.tokens",
     "arr[str]"},
    {"types without tokens", [](RawGguf& g) { g.set("tokenizer.ggml.token_type", list({1})); },
     "tokenizer.ggml.token_type", "one for each"},
    {"missing embedding", [](RawGguf& g) { g.tensor("token_embd.weight").name = "token_embd.other"; },
     "token_embd.weight", "missing"},
    {"missing table", [](RawGguf& g) { g.tensor("per_layer_token_embd.weight").name = "x"; },
     "per_layer_token_embd.weight", "missing"},
    {"unknown tensor",
     [](RawGguf& g) {
       g.tensors.push_back({"blk.0.attn_qkv.bias", {24}, 0, 0});
     },
     "blk.0.attn_qkv.bias", "unknown"},
    {"outer scale of other experts",
     [](RawGguf& g) {
       g.tensors.push_back({"blk.0.ffn_gate_exps.scale", {2}, 0, 0});
     },
     "blk.0.ffn_gate_exps.scale", "not one plain number"},
    {"outer scale in half a block",
     [](RawGguf& g) {
       g.tensors.push_back({"blk.0.ffn_gate_exps.scale", {3}, 24, 0});
     },
     "blk.0.ffn_gate_exps.scale", "not one plain number"},
    {"outer scale of a table",
     [](RawGguf& g) {
       g.tensors.push_back({"token_embd.scale", {1}, 0, 0});
     },
     "token_embd.scale", "not one plain number"},
    {"outer scale of a norm",
     [](RawGguf& g) {
       g.tensors.push_back({"output_hc_norm.scale", {1}, 0, 0});
     },
     "output_hc_norm.scale", "not one plain number"},
    {"fused beside parts",
     [](RawGguf& g) {
       g.tensors.push_back({"blk.0.ffn_gate_up_exps.weight", {8, 8, 3}, 0, 0});
     },
     "blk.0.ffn_gate_exps.weight", "twice"},
    {"huge tokens in the embedding",
     [](RawGguf& g) {
       g.tensor("token_embd.weight").ne = {1, uint64_t{1} << 33};
       g.tensors.resize(1);
     },
     "token_embd.weight", ""},
};

TEST(GgufModel, EveryContradictionIsAnErrorThatNamesKeyOrTensor) {
  ASSERT_TRUE(open_bytes(test::small_gguf().bytes()).ok());
  for (const Damage& damage : kDamages) {
    RawGguf g = test::small_gguf();
    damage.apply(g);
    if (std::string(damage.name) != "huge tokens in the embedding") g.place();
    const auto model = open_bytes(g.bytes());
    ASSERT_FALSE(model.ok()) << damage.name;
    const std::string& message = model.error().message;
    EXPECT_TRUE(model.error().code == Code::bad_file || model.error().code == Code::unsupported) << damage.name;
    EXPECT_NE(message.find("m.gguf"), std::string::npos) << message;
    EXPECT_NE(message.find(damage.mentions), std::string::npos) << damage.name << ": " << message;
    EXPECT_NE(message.find(damage.wanted), std::string::npos) << damage.name << ": " << message;
  }
}

TEST(GgufModel, AllWrongTensorsStandInOneMessageThatStaysBounded) {
  RawGguf g = test::small_gguf();
  g.tensor("blk.0.ssm_norm.weight").ne = {3};
  g.tensor("blk.1.attn_k.weight").name = "v.ignored";
  g.tensor("blk.1.attn_q_norm.weight").type = 24;  // I8
  g.place();
  auto model = open_bytes(g.bytes());
  ASSERT_FALSE(model.ok());
  for (const char* word : {"3 problems", "blk.0.ssm_norm.weight", "[3]", "wanted [2]",
                           "\"blk.1.attn_k.weight\" is missing", "blk.1.attn_q_norm.weight", "I8"}) {
    EXPECT_NE(model.error().message.find(word), std::string::npos) << word << " in " << model.error().message;
  }
  // Faults that tensors share are listed in full, the others up to a dozen.
  std::string missing;
  for (auto& t : g.tensors) {
    if (!t.name.starts_with("blk.") || t.name == "blk.0.ssm_a") continue;
    missing = t.name;
    t.name = "v." + t.name;
  }
  model = open_bytes(g.bytes());
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find(cat('"', missing, '"')), std::string::npos) << model.error().message;
  g = test::small_gguf();
  for (auto& t : g.tensors) {
    if (t.name.starts_with("blk.")) t.ne = {5};
  }
  g.place();
  model = open_bytes(g.bytes());
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("more"), std::string::npos) << model.error().message;
  EXPECT_LT(model.error().message.size(), 4000U);
}

/// That the error names every one of the tensors, each in quotes.
void expect_all_named(const Result<std::unique_ptr<ModelFile>>& model, const std::vector<std::string>& names) {
  ASSERT_FALSE(model.ok());
  for (const std::string& name : names)
    EXPECT_NE(model.error().message.find(cat('"', name, '"')), std::string::npos)
        << name << " in " << model.error().message;
}

// Unknown ids, types that only activations or indices have, types without a kernel and types too coarse for a norm: whoever mends
// the file needs all of them at once, and a tensor that is missing too.
TEST(GgufModel, OneMessageNamesEveryTensorThatCannotRunWhateverTheReason) {
  RawGguf g = test::small_gguf();
  const std::vector<std::pair<std::string, uint32_t>> bad = {
      {"blk.0.attn_qkv.weight", 99},    {"blk.0.ssm_out.weight", 99}, {"output.weight", 4},
      {"blk.1.ffn_up_exps.weight", 41}, {"blk.1.attn_q.weight", 42},  {"blk.0.attn_gate.weight", 26},
      {"blk.1.attn_k.weight", 15},      {"blk.0.ssm_norm.weight", 8}};
  std::vector<std::string> names;
  for (const auto& [name, type] : bad) {
    g.tensor(name).type = type;
    names.push_back(name);
  }
  g.tensor("blk.1.attn_v.weight").name = "v.gone";
  names.push_back("blk.1.attn_v.weight");
  const auto model = open_bytes(g.bytes());
  expect_all_named(model, names);
  EXPECT_EQ(model.error().code, Code::unsupported);
  for (const char* words :
       {"9 problems", "2 tensors have the unknown type 99", "unknown type 4", "type Q1_0", "type Q2_0", "type I32",
        "type Q8_K", "type Q8_0 (wanted F32, F16 or BF16", "supported are F32, F16, BF16 and"})
    EXPECT_NE(model.error().message.find(words), std::string::npos) << words << " in " << model.error().message;
}

TEST(GgufModel, HoweverManyTensorsHaveAnUnknownTypeAllAreNamedInEveryFileOfASet) {
  RawGguf all = test::small_gguf();
  std::vector<std::string> names;
  for (auto& t : all.tensors) {
    t.type = names.size() % 2 == 0 ? 99 : 4;
    names.push_back(t.name);
  }
  expect_all_named(open_bytes(all.bytes()), names);
  io::MemoryIo io;
  for (uint16_t i = 0; i < 2; ++i) {
    RawGguf part = all;
    const auto half = part.tensors.begin() + static_cast<ptrdiff_t>(names.size() / 2);
    i == 0 ? part.tensors.erase(half, part.tensors.end()) : part.tensors.erase(part.tensors.begin(), half);
    part.set("split.no", GgufValue::u16(i));
    part.set("split.count", GgufValue::u16(2));
    part.set("split.tensors.count", GgufValue::i32(static_cast<int32_t>(names.size())));
    io.put(gguf_split_path("m", i + 1u, 2), part.bytes());
  }
  expect_all_named(open_model(io, "m-00001-of-00002.gguf"), names);
  // Where nothing else can be read either, types come first: another program's file is full of them.
  all.erase("qwen4exp.ssm.state_size");
  expect_all_named(open_bytes(all.bytes()), names);
}

// Even those from which the shape of the model is read: the embedding, the table, ssm_a. (A head that is missing is no fault:
// the embedding is then used for it.)
TEST(GgufModel, EveryMissingTensorIsNamedWithEveryOther) {
  RawGguf whole = test::small_gguf();
  const int32_t recurrent[] = {1, 0};
  whole.set("qwen4exp.attention.recurrent_layers", GgufValue::array(std::span<const int32_t>(recurrent)));
  std::vector<std::string> names;
  for (const auto& t : whole.tensors) names.push_back(t.name);
  const auto without = [&](const std::vector<std::string>& gone) {
    RawGguf g = whole;
    std::erase_if(g.tensors, [&](const auto& t) { return std::find(gone.begin(), gone.end(), t.name) != gone.end(); });
    g.place();
    return open_bytes(g.bytes());
  };
  std::erase(names, "output.weight");
  for (size_t i = 0; i < names.size(); ++i) {
    expect_all_named(without({names[i]}), {names[i]});
    const std::vector<std::string> three = {names[i], "blk.0.ssm_a", names[(7 * i + 3) % names.size()]};
    expect_all_named(without(three), three);
  }
  expect_all_named(without(names), names);
}

TEST(GgufModel, SmallTensorsMayBeHalfPrecisionButNotQuantised) {
  RawGguf g = test::small_gguf();
  for (const uint32_t half : {1U, 30U}) {  // F16, BF16: half the bytes, the offsets stay as they are when padded to 32
    g.tensor("blk.0.hc_attn_norm.weight").type = half;
    g.tensor("blk.0.ssm_conv1d.weight").type = half;
    uint64_t offset = 0;
    for (auto& t : g.tensors) {
      t.offset = offset;
      uint64_t bytes = t.type == 0 ? 4 : 2;
      for (const uint64_t n : t.ne) bytes *= n;
      offset += (bytes + 31) / 32 * 32;
    }
    const auto model = open_bytes(g.bytes());
    EXPECT_TRUE(model.ok()) << model.error().message;
  }
}

TEST(GgufModel, AnyTruncationIsAnErrorAndAnyChangedHeaderByteIsAnErrorOrAModel) {
  const RawGguf g = test::small_gguf();
  const std::string good = g.bytes();
  const size_t header = g.header().size();
  for (size_t length = 0; length < header; length += 7) ASSERT_FALSE(open_bytes(good.substr(0, length)).ok()) << length;
  size_t opened = 0;
  for (size_t i = 0; i < header; ++i) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      const auto model = open_bytes(bad);
      if (model.ok()) {
        ++opened;
      } else {
        ASSERT_FALSE(model.error().message.empty());
      }
    }
  }
  EXPECT_LT(opened, header);  // most of a header means something
}

TEST(OpenModel, AMissingPathSaysWhatIsWanted) {
  io::MemoryIo io;
  const auto model = open_model(io, "nowhere");
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, Code::not_found);
  EXPECT_NE(model.error().message.find(".gguf"), std::string::npos);
}

}  // namespace
}  // namespace evros::format
