#include "format/config_json.h"

#include <algorithm>
#include <cmath>

#include "base/str.h"
#include "format/json.h"
#include "format/message.h"

namespace evros::format {

namespace json = boost::json;

namespace {

constexpr int32_t kMaxLayers = 1024;
constexpr int64_t kMaxNgramBase = int64_t{1} << 31;

std::string_view view(const json::value& string) { return {string.get_string().data(), string.get_string().size()}; }

class ConfigReader {
 public:
  /// `text` is the text model's section, `top` the whole file; they may be the same object.
  ConfigReader(const json::object& top, const json::object& text, const std::string& path, const std::string& prefix)
      : top_(top, path), text_(text, path, prefix) {}

  Result<ModelConfig> run() {
    family();
    shape();
    attention();
    rope();
    linear();
    experts();
    layer_kinds();
    ple();
    ids();
    EVROS_TRY(top_.status());
    EVROS_TRY(text_.status());
    EVROS_TRY(nested_status_);
    return std::move(c_);
  }

 private:
  void family() {
    const auto type = text_.text("model_type");
    if (type != "qwen4_exp_text" && type != "qwen4_exp")
      text_.fail("model_type", "\"qwen4_exp_text\"", Code::unsupported);
    if (text_.text("hidden_act").value_or("silu") != "silu") text_.fail("hidden_act", "\"silu\"", Code::unsupported);
    if (text_.truth_or("attention_bias", false)) text_.fail("attention_bias", "false", Code::unsupported);
    if (!text_.truth_or("attn_output_gate", true)) text_.fail("attn_output_gate", "true", Code::unsupported);
    if (text_.integer_or("indexer_kv_heads", 1) != 1) text_.fail("indexer_kv_heads", "1", Code::unsupported);
  }

  void shape() {
    HyperParams& h = c_.hyper;
    h.layers = text_.integer("num_hidden_layers");
    if (h.layers < 1 || h.layers > kMaxLayers) text_.fail("num_hidden_layers", cat("1 to ", kMaxLayers));
    h.hidden = text_.integer("hidden_size");
    h.vocab = text_.integer("vocab_size");
    if (h.vocab < 1) text_.fail("vocab_size", "a positive integer");
    h.context_length = text_.wide_or("max_position_embeddings", 0);
    if (h.context_length < 1) text_.fail("max_position_embeddings", "a positive integer");
    h.rms_eps = static_cast<float>(text_.real("rms_norm_eps"));
    h.hc_count = text_.integer("hc_count");
    h.hc_lowrank = text_.integer("hc_lowrank");
    h.tied_embeddings = text_.truth_or("tie_word_embeddings", top_.truth_or("tie_word_embeddings", false));
    int32_t mtp = text_.integer_or("mtp_num_hidden_layers", 0);
    if (const json::object* nested = text_.object("mtp"); nested != nullptr && mtp == 0) {
      JsonReader reader(*nested, text_.path(), "mtp.");
      mtp = reader.integer_or("num_hidden_layers", 0);
    }
    if (mtp < 0 || mtp > 1) text_.fail("mtp_num_hidden_layers", std::to_string(mtp), "0 or 1", Code::unsupported);
    h.mtp_layers = mtp;
  }

  void attention() {
    HyperParams& h = c_.hyper;
    h.heads = text_.integer("num_attention_heads");
    h.kv_heads = text_.integer_or("num_key_value_heads", h.heads);
    if (h.heads < 1) return text_.fail("num_attention_heads", "a positive integer");
    h.key_dim = text_.integer_or("head_dim", h.hidden / h.heads);
    h.value_dim = h.key_dim;
    h.index_heads = text_.integer_or("indexer_n_heads", 0);
    h.index_dim = text_.integer_or("indexer_head_dim", 0);
    h.index_budget = text_.integer_or("indexer_budget", 0);
  }

  /// rope_parameters (or the older rope_scaling) first, keys of the same name beside it second.
  void rope() {
    const json::object* nested = text_.object("rope_parameters");
    if (nested == nullptr) nested = text_.object("rope_scaling");
    static const json::object kNone;
    JsonReader inner(nested == nullptr ? kNone : *nested, text_.path(), "rope_parameters.");
    const std::string type = inner.text("rope_type").value_or(inner.text("type").value_or("default"));
    if (type != "default" && type != "mrope") inner.fail("rope_type", quoted(type), "\"default\"", Code::unsupported);
    HyperParams& h = c_.hyper;
    h.rope_theta = inner.find("rope_theta") != nullptr ? inner.real("rope_theta") : text_.real("rope_theta");
    const double factor = inner.find("partial_rotary_factor") != nullptr ? inner.real("partial_rotary_factor")
                                                                         : text_.real_or("partial_rotary_factor", 1.0);
    if (!(factor > 0 && factor <= 1)) inner.fail("partial_rotary_factor", cat(factor), "a number above 0, at most 1");
    h.rope_dims = factor > 0 && factor <= 1 ? static_cast<int32_t>(h.key_dim * factor) : 0;
    const std::vector<int64_t> sections = inner.integers("mrope_section");
    if (sections.size() > h.rope_sections.size()) inner.fail("mrope_section", "3 integers");
    for (size_t i = 0; i < std::min(sections.size(), h.rope_sections.size()); ++i) {
      if (sections[i] < 0 || sections[i] > (1 << 16)) inner.fail("mrope_section", cat(sections[i]), "0 to 65536");
      h.rope_sections[i] = static_cast<int32_t>(sections[i]);
    }
    nested_status_ = inner.status();
  }

  void linear() {
    HyperParams& h = c_.hyper;
    h.linear_key_heads = text_.integer("linear_num_key_heads");
    h.linear_value_heads = text_.integer("linear_num_value_heads");
    h.linear_key_dim = text_.integer("linear_key_head_dim");
    h.linear_value_dim = text_.integer("linear_value_head_dim");
    h.conv_kernel = text_.integer("linear_conv_kernel_dim");
    const std::string gate = text_.text("output_gate_type").value_or(text_.text("hidden_act").value_or("silu"));
    if (gate != "sigmoid" && gate != "silu" && gate != "swish")
      text_.fail("output_gate_type", "\"sigmoid\" or \"silu\"", Code::unsupported);
    h.output_gate = gate == "sigmoid" ? GateActivation::sigmoid : GateActivation::silu;
  }

  void experts() {
    HyperParams& h = c_.hyper;
    h.experts = text_.integer("num_experts");
    h.experts_used = text_.integer("num_experts_per_tok");
    h.expert_ff = text_.integer("moe_intermediate_size");
    h.shared_ff = text_.integer("shared_expert_intermediate_size");
    h.norm_topk_prob = text_.truth_or("norm_topk_prob", true);
  }

  void layer_kinds() {
    if (!text_.ok()) return;
    HyperParams& h = c_.hyper;
    const int32_t ratio = text_.integer("indexer_compress_ratio");
    const json::value* types = text_.find("layer_types");
    if (types == nullptr) {
      const int32_t interval = text_.integer_or("full_attention_interval", 0);
      if (interval < 1) return text_.fail("layer_types", "a list, or full_attention_interval");
      for (int32_t i = 0; i < h.layers; ++i) add_layer((i + 1) % interval == 0, ratio);
      return;
    }
    if (!types->is_array() || types->get_array().size() != static_cast<size_t>(h.layers))
      return text_.fail("layer_types", cat("an array with one entry for each of ", h.layers, " layers"));
    for (const json::value& type : types->get_array()) {
      static constexpr std::string_view kFull[] = {"full_attention", "qwen_sparse_attention",
                                                   "deepseek_sparse_attention", "hybrid_indexed"};
      const std::string_view name = type.is_string() ? view(type) : std::string_view();
      const bool is_full = std::find(std::begin(kFull), std::end(kFull), name) != std::end(kFull);
      if (!is_full && name != "linear_attention")
        return text_.fail("layer_types", cat("a list with ", json_short(type)),
                          "linear_attention, full_attention or qwen_sparse_attention", Code::unsupported);
      add_layer(is_full, ratio);
    }
  }
  void add_layer(bool is_full, int32_t ratio) {
    c_.hyper.layer_kind.push_back(is_full ? LayerKind::full : LayerKind::linear);
    c_.hyper.compress_ratio.push_back(is_full ? ratio : 0);
  }

  void ple() {
    const std::vector<int64_t> layers = text_.integers("ple_layer_ids");
    if (layers.empty() || !text_.ok()) return;
    HyperParams& h = c_.hyper;
    if (layers.size() > static_cast<size_t>(h.layers))
      return text_.fail("ple_layer_ids", cat("at most one entry for each of ", h.layers, " layers"));
    for (const int64_t layer : layers) {
      if (layer < 1 || layer > h.layers)
        return text_.fail("ple_layer_ids", cat(layer), cat("layers from 1 to ", h.layers));
      h.ple.push_back({static_cast<int32_t>(layer - 1), {}, {}, {}});
    }
    h.ngram_size = text_.integer("ngram_size");
    h.heads_per_ngram = text_.integer("heads_per_ngram");
    h.ple_conv_kernel = text_.integer("ple_conv_kernel_size");
    if (h.ngram_size < 2 || h.ngram_size > 8) return text_.fail("ngram_size", "2 to 8");
    if (h.heads_per_ngram < 1 || h.heads_per_ngram > 4096 || h.ple_heads() * static_cast<int64_t>(h.ple.size()) > 4096)
      return text_.fail("heads_per_ngram", "at least 1 and at most 4096 n-gram heads over all layers");
    const int32_t width = text_.integer("ple_embed_dim");
    if (width < 1 || width % h.ple_heads() != 0)
      return text_.fail("ple_embed_dim", cat("a multiple of (ngram_size - 1) * heads_per_ngram, ", h.ple_heads()));
    h.ple_row_width = width / h.ple_heads();
    c_.ngram = {static_cast<uint64_t>(text_.wide_or("seed", 1234)), h.vocab, h.ngram_size, h.heads_per_ngram,
                text_.wide_or("ngram_vocab_size_base", 0)};
    if (c_.ngram.vocab_base < 0 || c_.ngram.vocab_base > kMaxNgramBase)
      text_.fail("ngram_vocab_size_base", cat("1 to ", kMaxNgramBase));
  }

  void ids() {
    JsonReader& source = text_.find("eos_token_id") != nullptr ? text_ : top_;
    c_.eos_ids = source.integers("eos_token_id");
    if (!c_.hyper.ple.empty()) {
      if (c_.eos_ids.empty()) return text_.fail("eos_token_id", "a token id, as it cuts the n-gram window");
      c_.hyper.ple_eos = c_.eos_ids[0];
    }
    c_.bos_id = text_.wide_or("bos_token_id", top_.wide_or("bos_token_id", -1));
    c_.pad_id = text_.wide_or("pad_token_id", top_.wide_or("pad_token_id", -1));
  }

  JsonReader top_, text_;
  Status nested_status_;  // of the objects inside the text section
  ModelConfig c_;
};

}  // namespace

Result<ModelConfig> parse_config(std::string_view text, const std::string& path) {
  EVROS_ASSIGN(const json::object top, parse_json_object(text, path));
  JsonReader reader(top, path);
  const json::object* nested = reader.object("text_config");
  EVROS_TRY(reader.status());
  ConfigReader config(top, nested == nullptr ? top : *nested, path, nested == nullptr ? "" : "text_config.");
  return config.run();
}

Result<GenerationConfig> parse_generation_config(std::string_view text, const std::string& path) {
  EVROS_ASSIGN(const json::object top, parse_json_object(text, path));
  JsonReader reader(top, path);
  GenerationConfig out;
  out.eos_ids = reader.integers("eos_token_id");
  const auto number = [&](const char* key) -> std::optional<float> {
    if (reader.find(key) == nullptr) return std::nullopt;
    return static_cast<float>(reader.real(key));
  };
  out.sampling.temperature = number("temperature");
  out.sampling.top_p = number("top_p");
  if (reader.find("top_k") != nullptr) out.sampling.top_k = reader.integer("top_k");
  EVROS_TRY(reader.status());
  return out;
}

}  // namespace evros::format
