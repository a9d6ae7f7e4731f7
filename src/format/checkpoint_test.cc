// Checkpoint folders: every layout that exporters write, the pieces of reordered tensors, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>

#include "format/model_file.h"
#include "format/safetensors.h"
#include "format/test_model.h"

namespace evros::format {
namespace {

using test::RawCheckpoint;

Result<std::unique_ptr<ModelFile>> open_checkpoint(RawCheckpoint c) {
  io::MemoryIo io;
  c.put(io, "m");
  return open_model(io, "m");
}

std::string read_tensor(const ModelFile& model, const std::string& name) {
  const Tensor* tensor = model.find(name);
  EXPECT_NE(tensor, nullptr) << name;
  if (tensor == nullptr) return {};
  std::string bytes(tensor->bytes(), '\0');
  const Status status = model.read(*tensor, 0, std::as_writable_bytes(std::span(bytes)));
  EXPECT_TRUE(status.ok());
  return bytes;
}

TEST(Checkpoint, TheSmallCheckpointOpens) {
  RawCheckpoint c = test::small_checkpoint();
  const auto model = open_checkpoint(c);
  ASSERT_TRUE(model.ok()) << model.error().message;
  const HyperParams &h = (*model)->hyper(), want = test::small_hyper();
  EXPECT_EQ(h.layer_kind, want.layer_kind);
  EXPECT_EQ(h.ple[0].multipliers, want.ple[0].multipliers);
  EXPECT_EQ(h.ple[0].head_offset, want.ple[0].head_offset);
  EXPECT_EQ(h.rope_dims, 2);
  EXPECT_EQ(h.ple_row_width, 6);
  EXPECT_EQ((*model)->name(), "m");
}

TEST(Checkpoint, UnequalTableShardsAreJoinedInNumericOrder) {
  RawCheckpoint c = test::small_checkpoint();
  const std::string stem = "model.layers.0.ple.ple_embedding.ngram_embedding.shard_";
  c.erase(stem + "0.weight");
  c.erase(stem + "1.weight");
  // Eleven shards, so that the order of names is not the order of numbers.
  for (int k = 10; k >= 0; --k) {
    c.add(cat(stem, k, ".weight"), {static_cast<uint64_t>(k % 3 + 1), 6});
    c.tensors.back().data = std::string((k % 3 + 1) * 12, static_cast<char>('a' + k));
  }
  const auto model = open_checkpoint(c);
  ASSERT_TRUE(model.ok()) << model.error().message;
  std::string want;
  for (int k = 0; k <= 10; ++k) want += std::string((k % 3 + 1) * 12, static_cast<char>('a' + k));
  EXPECT_EQ(read_tensor(**model, "per_layer_token_embd.weight"), want);
  EXPECT_EQ((*model)->hyper().ple_table_rows, 21U);
}

TEST(Checkpoint, TwoPleLayersShareOneTableWithShiftedOffsets) {
  RawCheckpoint c = test::small_checkpoint();
  c.edit("\"linear_attention\", \"qwen_sparse_attention\"", "\"linear_attention\", \"linear_attention\"");
  c.edit("\"ple_layer_ids\": [1]", "\"ple_layer_ids\": [1, 2]");
  std::erase_if(c.tensors, [](const auto& t) { return t.name.starts_with("model.layers.1.self_attn."); });
  for (const auto& t : std::vector(c.tensors)) {
    for (const char* part : {"model.layers.0.linear_attn.", "model.layers.0.ple."}) {
      if (!t.name.starts_with(part)) continue;
      c.tensors.push_back(t);
      c.tensors.back().name.replace(0, 14, "model.layers.1");
    }
  }
  const auto model = open_checkpoint(c);
  ASSERT_TRUE(model.ok()) << model.error().message;
  ASSERT_EQ((*model)->hyper().ple.size(), 2U);
  EXPECT_EQ((*model)->hyper().ple[0].head_offset, (std::vector<uint64_t>{0, 3}));
  EXPECT_EQ((*model)->hyper().ple[1].head_offset, (std::vector<uint64_t>{9, 12}));
  EXPECT_EQ((*model)->hyper().ple_table_rows, 18U);
  EXPECT_NE((*model)->find("blk.1.ple_key.weight"), nullptr);
}

TEST(Checkpoint, HashConstantsAreDerivedWhenTheCheckpointShipsNone) {
  RawCheckpoint c = test::small_checkpoint();
  std::erase_if(c.tensors, [](const auto& t) { return t.dtype == "I64"; });
  EXPECT_FALSE(open_checkpoint(c).ok());  // nothing to derive them from
  c.edit("\"ngram_size\": 2", "\"ngram_size\": 2, \"ngram_vocab_size_base\": 2");
  const auto model = open_checkpoint(c);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ((*model)->hyper().ple[0].head_vocab, (std::vector<uint64_t>{2, 3}));
  c = test::small_checkpoint();
  c.erase("model.layers.0.ple.ple_embedding.ngram_heads_offsets");
  const auto some = open_checkpoint(c);
  ASSERT_FALSE(some.ok());
  EXPECT_NE(some.error().message.find("all or none"), std::string::npos) << some.error().message;
}

TEST(Checkpoint, EveryConfigLayoutGivesTheSameModel) {
  const std::string nested_start = R"({"model_type": "qwen4_exp", "vision_config": {"depth": 1}, "text_config": )";
  struct Case {
    const char* name;
    std::function<void(RawCheckpoint&)> change;
  };
  const Case cases[] = {
      {"nested under text_config", [&](RawCheckpoint& c) { c.config = nested_start + c.config + "}"; }},
      {"eos and ties at the top",
       [&](RawCheckpoint& c) {
         c.edit(", \"eos_token_id\": 1", "");
         c.config = nested_start + c.config + R"(, "eos_token_id": [1, 3], "tie_word_embeddings": false})";
       }},
      {"full_attention", [](RawCheckpoint& c) { c.edit("qwen_sparse_attention", "full_attention"); }},
      {"deepseek_sparse_attention",
       [](RawCheckpoint& c) { c.edit("qwen_sparse_attention", "deepseek_sparse_attention"); }},
      {"hybrid_indexed", [](RawCheckpoint& c) { c.edit("qwen_sparse_attention", "hybrid_indexed"); }},
      {"interval only",
       [](RawCheckpoint& c) {
         c.edit(R"("layer_types": ["linear_attention", "qwen_sparse_attention"])", R"("full_attention_interval": 2)");
       }},
      {"rope at the top",
       [](RawCheckpoint& c) {
         c.edit(
             R"("rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "mrope_section": [1, 0, 0]})",
             R"("rope_theta": 10000, "partial_rotary_factor": 0.5)");
       }},
      {"no head_dim", [](RawCheckpoint& c) { c.edit(R"("head_dim": 4,)", ""); }},
      {"gate from hidden_act", [](RawCheckpoint& c) { c.edit(R"("output_gate_type": "sigmoid",)", ""); }},
      {"eos list", [](RawCheckpoint& c) { c.edit("\"eos_token_id\": 1", "\"eos_token_id\": [1, 2]"); }},
      {"vision tensors",
       [](RawCheckpoint& c) {
         c.add("model.visual.blocks.0.weight", {2, 2});
       }},
      {"mtp announced but not there",
       [](RawCheckpoint& c) { c.edit("\"hc_count\"", "\"mtp_num_hidden_layers\": 1, \"hc_count\""); }},
  };
  for (const Case& c : cases) {
    RawCheckpoint raw = test::small_checkpoint();
    c.change(raw);
    const auto model = open_checkpoint(raw);
    ASSERT_TRUE(model.ok()) << c.name << ": " << model.error().message;
    const HyperParams& h = (*model)->hyper();
    EXPECT_EQ(h.layer_kind, test::small_hyper().layer_kind) << c.name;
    EXPECT_EQ(h.compress_ratio, test::small_hyper().compress_ratio) << c.name;
    EXPECT_EQ(h.key_dim, 4) << c.name;
    EXPECT_EQ(h.rope_dims, 2) << c.name;
    EXPECT_EQ(h.rope_theta, 1e4) << c.name;
    EXPECT_EQ(h.ple_eos, 1) << c.name;
    EXPECT_EQ(h.mtp_layers, 0) << c.name;
    EXPECT_TRUE(h.norm_topk_prob) << c.name;
    EXPECT_EQ(h.output_gate,
              std::string(c.name) == "gate from hidden_act" ? GateActivation::silu : GateActivation::sigmoid);
  }
}

TEST(Checkpoint, TiedEmbeddingsNeedNoHeadAndBothPrefixesAreFound) {
  RawCheckpoint c = test::small_checkpoint("model.language_model.");
  c.edit("\"hc_count\"", "\"tie_word_embeddings\": true, \"hc_count\"");
  EXPECT_TRUE(open_checkpoint(c).ok());  // a leftover head is passed over
  c.erase("lm_head.weight");
  const auto model = open_checkpoint(c);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_TRUE((*model)->hyper().tied_embeddings);
  EXPECT_EQ((*model)->find("output.weight"), nullptr);
}

TEST(Checkpoint, FusedExpertsEqualSingleExperts) {
  RawCheckpoint single = test::small_checkpoint(), fused = test::small_checkpoint();
  single.weights();
  std::string gate_up, down;
  for (int e = 0; e < 3; ++e) {
    const std::string s = cat("model.layers.1.mlp.experts.", e);
    gate_up += single.tensor(s + ".gate_proj.weight").data + single.tensor(s + ".up_proj.weight").data;
    down += single.tensor(s + ".down_proj.weight").data;
    for (const char* part : {".gate_proj.weight", ".up_proj.weight", ".down_proj.weight"}) fused.erase(s + part);
  }
  fused.tensors.push_back({"model.layers.1.mlp.experts.gate_up_proj", "BF16", {3, 8, 8}, gate_up});
  fused.tensors.push_back({"model.layers.1.mlp.experts.down_proj", "BF16", {3, 8, 4}, down});
  const auto a = open_checkpoint(single), b = open_checkpoint(fused);
  ASSERT_TRUE(a.ok() && b.ok()) << b.error().message;
  for (const char* name : {"blk.1.ffn_gate_exps.weight", "blk.1.ffn_up_exps.weight", "blk.1.ffn_down_exps.weight"}) {
    EXPECT_EQ(read_tensor(**a, name), read_tensor(**b, name)) << name;
  }
}

TEST(Checkpoint, ValueHeadsAreTiledAndReadsMayStartInTheMiddle) {
  RawCheckpoint c = test::small_checkpoint();
  c.tensor("model.layers.0.linear_attn.dt_bias").data = "h0h1h2h3";  // key head 0 owns h0 h1, key head 1 owns h2 h3
  // Rows of 8 columns in 4 heads of 2: value = column.
  std::string out;
  for (int row = 0; row < 8; ++row) out += "A0A1B0B1C0C1D0D1";
  c.tensor("model.layers.0.linear_attn.out_proj.weight").data = out;
  const auto model = open_checkpoint(c);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(read_tensor(**model, "blk.0.ssm_dt.bias"), "h0h2h1h3");
  EXPECT_EQ(read_tensor(**model, "blk.0.ssm_out.weight").substr(0, 16), "A0A1C0C1B0B1D0D1");
  std::string part(4, '\0');
  ASSERT_TRUE((*model)->read(*(*model)->find("blk.0.ssm_dt.bias"), 3, std::as_writable_bytes(std::span(part))).ok());
  EXPECT_EQ(part, "2h1h");
  std::string row(16, '\0');
  ASSERT_TRUE((*model)->read(*(*model)->find("blk.0.ssm_out.weight"), 32, std::as_writable_bytes(std::span(row))).ok());
  EXPECT_EQ(row, "A0A1C0C1B0B1D0D1");
}

TEST(Checkpoint, EhProjInterleavesTheTwoProjectionsOfTheBundledModel) {
  const std::string folder = std::string(EVROS_SOURCE_DIR) + "/models/evros-tiny";
  const auto model = open_model(io::real_io(), folder);
  const auto stored = open_safetensors_folder(io::real_io(), folder);
  ASSERT_TRUE(model.ok() && stored.ok());
  const auto bytes_of = [&](const std::string& name) {
    const auto found =
        std::find_if(stored->tensors.begin(), stored->tensors.end(), [&](const auto& t) { return t.name == name; });
    std::string bytes(found->bytes, '\0');
    EXPECT_TRUE(stored->files[found->file]->read_at(found->offset, std::as_writable_bytes(std::span(bytes))).ok());
    return bytes;
  };
  const std::string embedding = bytes_of("mtp.fc_embedding.weight"), state = bytes_of("mtp.fc_hidden.weight");
  std::string want;
  for (size_t row = 0; row < 256; ++row) want += embedding.substr(row * 512, 512) + state.substr(row * 512, 512);
  EXPECT_TRUE(read_tensor(**model, "blk.8.nextn.eh_proj.weight") == want);
}

struct Damage {
  const char* name;
  std::function<void(RawCheckpoint&)> apply;
  const char *mentions, *wanted;
};
std::function<void(RawCheckpoint&)> edit(const char* from, const char* to) {
  return [=](RawCheckpoint& c) { c.edit(from, to); };
}

const std::string kPle = "model.layers.0.ple.ple_embedding.";

const std::vector<Damage> kDamages = {
    {"not JSON", [](RawCheckpoint& c) { c.config = "{"; }, "config.json", "JSON"},
    {"an array", [](RawCheckpoint& c) { c.config = "[]"; }, "config.json", "object"},
    {"other family", edit("qwen4_exp_text", "llama"), "model_type", "qwen4_exp_text"},
    {"missing key", edit("\"hidden_size\": 8,", ""), "hidden_size", "absent"},
    {"text for a number", edit("\"hidden_size\": 8", "\"hidden_size\": \"8\""), "hidden_size", "integer"},
    {"fraction", edit("\"hidden_size\": 8", "\"hidden_size\": 8.5"), "hidden_size", "8.5"},
    {"huge", edit("\"hidden_size\": 8", "\"hidden_size\": 1e12"), "hidden_size", "32-bit"},
    {"layers 0", edit("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 0"), "num_hidden_layers", "1 to"},
    {"layer type unknown", edit("qwen_sparse_attention", "sliding_attention"), "layer_types", "sliding_attention"},
    {"layer types short", edit("\"linear_attention\", ", ""), "layer_types", "each of 2"},
    {"YaRN", edit("\"rope_type\": \"default\"", "\"rope_type\": \"yarn\""), "rope_type", "yarn"},
    {"infinite theta", edit("10000.0", "1e999"), "rope_theta", "finite"},
    {"rotary factor", edit("\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 1.5"), "partial_rotary_factor",
     "at most 1"},
    {"odd rotary", edit("\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 0.75"), "partial_rotary_factor",
     "even"},
    {"bias", edit("\"hc_count\": 2", "\"hc_count\": 2, \"attention_bias\": true"), "attention_bias", "false"},
    {"gelu", edit("\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\""), "hidden_act", "silu"},
    {"gate", edit("\"output_gate_type\": \"sigmoid\"", "\"output_gate_type\": \"tanh\""), "output_gate_type",
     "sigmoid"},
    {"bool", edit("\"hc_count\": 2", "\"hc_count\": 2, \"norm_topk_prob\": 1"), "norm_topk_prob", "true or false"},
    {"PLE layer 0", edit("\"ple_layer_ids\": [1]", "\"ple_layer_ids\": [0]"), "ple_layer_ids", "1 to 2"},
    {"PLE layer 3", edit("\"ple_layer_ids\": [1]", "\"ple_layer_ids\": [3]"), "ple_layer_ids", "1 to 2"},
    {"PLE on full layer",
     [](RawCheckpoint& c) {
       c.edit("\"ple_layer_ids\": [1]", "\"ple_layer_ids\": [2]");
       for (auto& t : c.tensors)
         if (t.name.starts_with("model.layers.0.ple.")) t.name.replace(0, 14, "model.layers.1");
     },
     "ple_layer_ids", "linear"},
    {"n-gram size", edit("\"ngram_size\": 2", "\"ngram_size\": 1"), "ngram_size", "2 to 8"},
    {"n-gram heads overflow", edit("\"heads_per_ngram\": 2", "\"heads_per_ngram\": 2147483647"), "heads_per_ngram",
     "4096"},
    {"embed dim", edit("\"ple_embed_dim\": 12", "\"ple_embed_dim\": 13"), "ple_embed_dim", "multiple"},
    {"no eos", edit(", \"eos_token_id\": 1", ""), "eos_token_id", "n-gram"},
    {"eos beyond the vocabulary", edit("\"eos_token_id\": 1", "\"eos_token_id\": 16"), "eos_token_id", "15"},
    {"value heads", edit("\"linear_num_value_heads\": 4", "\"linear_num_value_heads\": 3"), "linear_num_value_heads",
     "multiple"},
    {"heads", edit("\"num_key_value_heads\": 1", "\"num_key_value_heads\": 3"), "num_attention_heads", "multiple"},
    {"budget", edit("\"indexer_budget\": 4", "\"indexer_budget\": 1"), "indexer_budget", "block"},
    {"head range beyond the table", [](RawCheckpoint& c) { c.erase(kPle + "ngram_embedding.shard_1.weight"); },
     "ngram_heads_offsets", "4 rows"},
    {"table gap",
     [](RawCheckpoint& c) {
       c.tensor(kPle + "ngram_embedding.shard_1.weight").name = kPle + "ngram_embedding.shard_2.weight";
     },
     "shard_1.weight", "missing"},
    {"no table",
     [](RawCheckpoint& c) {
       c.erase(kPle + "ngram_embedding.shard_0.weight"), c.erase(kPle + "ngram_embedding.shard_1.weight");
     },
     "shard_0.weight", "missing"},
    {"shard of other width",
     [](RawCheckpoint& c) {
       c.tensor(kPle + "ngram_embedding.shard_1.weight").shape = {5, 4};
     },
     "shard_1.weight", "[5, 6]"},
    {"shards of other types", [](RawCheckpoint& c) { c.tensor(kPle + "ngram_embedding.shard_1.weight").dtype = "F32"; },
     "shard_1.weight", "wanted BF16"},
    {"short buffer",
     [](RawCheckpoint& c) { c.erase(kPle + "layer_multipliers"), c.add_buffer(kPle + "layer_multipliers", {1}); },
     "layer_multipliers", "[2]"},
    {"negative buffer",
     [](RawCheckpoint& c) {
       c.erase(kPle + "layer_multipliers"), c.add_buffer(kPle + "layer_multipliers", {1, -1});
     },
     "layer_multipliers", "-1"},
    {"missing tensor", [](RawCheckpoint& c) { c.erase("model.layers.1.self_attn.k_proj.weight"); }, "k_proj.weight",
     "missing"},
    {"missing expert", [](RawCheckpoint& c) { c.erase("model.layers.1.mlp.experts.2.up_proj.weight"); },
     "experts.2.up_proj", "missing"},
    {"wrong shape",
     [](RawCheckpoint& c) {
       c.tensor("model.layers.1.self_attn.k_proj.weight").shape = {8, 4};
     },
     "k_proj.weight", "wanted [4, 8]"},
    {"FP8", [](RawCheckpoint& c) { c.tensor("model.layers.1.self_attn.k_proj.weight").dtype = "F8_E4M3"; }, "F8_E4M3",
     "BF16"},
    {"unknown tensor",
     [](RawCheckpoint& c) {
       c.add("model.layers.1.self_attn.k_proj.bias", {4, 1});
     },
     "k_proj.bias", "unknown"},
    {"MTP without its rest",
     [](RawCheckpoint& c) {
       c.edit("\"hc_count\"", "\"mtp_num_hidden_layers\": 1, \"hc_count\""), c.add("mtp.fc_hidden.weight", {8, 8});
     },
     "mtp.fc_embedding.weight", "missing"},
    {"two MTP layers", edit("\"hc_count\"", "\"mtp_num_hidden_layers\": 2, \"hc_count\""), "mtp_num_hidden_layers",
     "0 or 1"},
};

TEST(Checkpoint, EveryDamageIsAnErrorThatNamesKeyOrTensor) {
  for (const Damage& damage : kDamages) {
    RawCheckpoint c = test::small_checkpoint();
    damage.apply(c);
    const auto model = open_checkpoint(c);
    ASSERT_FALSE(model.ok()) << damage.name;
    const std::string& message = model.error().message;
    EXPECT_TRUE(model.error().code == Code::bad_file || model.error().code == Code::unsupported)
        << damage.name << message;
    EXPECT_TRUE(message.starts_with("m: ") || message.starts_with("m/")) << message;
    EXPECT_NE(message.find(damage.mentions), std::string::npos) << damage.name << ": " << message;
    EXPECT_NE(message.find(damage.wanted), std::string::npos) << damage.name << ": " << message;
  }
}

TEST(Checkpoint, FoldersWithoutConfigOrWeightsSayWhatIsMissing) {
  io::MemoryIo io;
  io.put("m/README.md", "x");
  EXPECT_NE(open_model(io, "m").error().message.find("config.json"), std::string::npos);
  io.put("m/config.json", test::small_checkpoint().config);
  const auto model = open_model(io, "m");
  EXPECT_EQ(model.error().code, Code::not_found);
  EXPECT_NE(model.error().message.find("safetensors"), std::string::npos);
}

TEST(Checkpoint, AnyTruncationOrChangedByteOfTheConfigIsAnErrorOrAModel) {
  RawCheckpoint c = test::small_checkpoint();
  const std::string weights = c.weights();
  for (size_t i = 0; i < c.config.size(); ++i) {
    io::MemoryIo io;
    io.put("m/model.safetensors", weights);
    io.put("m/config.json", c.config.substr(0, i));
    ASSERT_FALSE(open_model(io, "m").ok()) << i;
    for (const int flip : {0x01, 0x10, 0x80}) {
      std::string bad = c.config;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      io.put("m/config.json", bad);
      const auto model = open_model(io, "m");
      if (!model.ok()) {
        ASSERT_FALSE(model.error().message.empty());
      }
    }
  }
}

}  // namespace
}  // namespace evros::format
