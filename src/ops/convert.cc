#include "ops/convert.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "base/str.h"
#include "format/expected_tensors.h"
#include "format/gguf_writer.h"
#include "format/model_file.h"
#include "kernels/derive.h"
#include "kernels/kernels.h"
#include "ops/gguf_keys.h"
#include "text/export.h"
#include "text/tokenizer.h"

namespace evros::ops {
namespace {

using format::GgufValue;
using format::Tensor;
using format::TensorType;

/// Elements that are decoded at a time, rounded to whole rows.
constexpr uint64_t kStepElements = 1u << 21;
constexpr size_t kTensorsListed = 12;

struct Planned {
  const Tensor* source;
  TensorType type;
};

/// llama.cpp's number for a file's main type; a label, read by no one to decide anything.
uint32_t file_type(TensorType type) {
  switch (type) {
    case TensorType::f16:
      return 1;
    case TensorType::q4_0:
      return 2;
    case TensorType::q8_0:
      return 7;
    case TensorType::q4_k:
      return 14;
    case TensorType::q6_k:
      return 18;
    case TensorType::bf16:
      return 32;
    default:
      return 0;
  }
}

bool is_target(TensorType type) {
  return type == TensorType::f32 || type == TensorType::f16 || type == TensorType::bf16 || type == TensorType::q8_0 ||
         type == TensorType::q4_0 || type == TensorType::q4_k || type == TensorType::q6_k;
}

/// Which type each tensor gets: ConvertOptions::type says the rule.
class TypeChoice {
 public:
  TypeChoice(const format::HyperParams& hyper, TensorType wanted) : wanted_(wanted) {
    for (const format::TensorShape& shape : format::expected_tensors(hyper)) small_.emplace(shape.name, shape.small);
  }

  TensorType operator()(const Tensor& tensor) const {
    if (wanted_ == TensorType::f32) return wanted_;
    const std::string_view name = tensor.name;
    const auto found = small_.find(tensor.name);
    if (found != small_.end() && found->second) return TensorType::f32;
    if (name.ends_with(".ssm_alpha.weight") || name.ends_with(".ssm_beta.weight")) return TensorType::f32;
    if (name.ends_with(".indexer.q_proj.weight") || name.ends_with(".indexer.k_proj.weight")) return tensor.type;
    const auto is_whole = [&](TensorType type) { return tensor.ne[0] % format::type_info(type).block_elements == 0; };
    if (is_whole(wanted_)) return wanted_;
    const bool has_smaller_blocks = format::type_info(wanted_).block_elements == 256 && is_whole(TensorType::q8_0);
    return has_smaller_blocks ? TensorType::q8_0 : TensorType::f16;
  }

 private:
  TensorType wanted_;
  std::unordered_map<std::string, bool> small_;
};

Status check_request(io::Io& io, const format::ModelFile& source, const std::string& to,
                     const ConvertOptions& options) {
  if (!is_target(options.type)) {
    return Error{Code::invalid_argument,
                 cat("the type ", format::type_info(options.type).name,
                     " cannot be written; possible are f32, f16, bf16, q8_0, q4_0, q4_k and q6_k")};
  }
  if (!to.ends_with(".gguf"))
    return Error{Code::invalid_argument, cat("the file to write is ", to, "; its name must end in .gguf")};
  EVROS_TRY(io.check_target(to));
  for (const std::string& path : source.files()) {
    if (io.same_file(path, to))
      return Error{Code::invalid_argument, cat(to, " would be written over the model that is read")};
  }
  return {};
}

Result<std::vector<Planned>> plan_tensors(const format::ModelFile& source, const ConvertOptions& options) {
  const format::HyperParams& hyper = source.hyper();
  const TypeChoice choose(hyper, options.type);
  const std::string draft = cat("blk.", hyper.layers, '.');
  std::vector<Planned> planned;
  std::string refused;
  size_t count = 0;
  for (const Tensor& tensor : source.tensors()) {
    if (!options.mtp && hyper.mtp_layers > 0 && tensor.name.starts_with(draft)) continue;
    planned.push_back({&tensor, choose(tensor)});
    if (planned.back().type == tensor.type || kernels::can_multiply(tensor.type)) continue;
    if (++count <= kTensorsListed)
      refused += cat(count > 1 ? ", " : "", tensor.name, " (", format::type_info(tensor.type).name, ")");
  }
  if (count == 0) return planned;
  if (count > kTensorsListed) refused += cat(", and ", count - kTensorsListed, " more");
  return Error{Code::unsupported, cat(source.path(), ": ", count,
                                      " tensors have a type that this version cannot decode (it "
                                      "decodes F32, F16, BF16, Q8_0, Q4_0, Q4_K and Q6_K): ",
                                      refused)};
}

/// What a GGUF source says beside the keys that are made anew: authors, licence, the tokenizer, other programs' keys.
Status copy_keys(io::Io& io, const std::string& from, format::GgufWriter& writer) {
  EVROS_ASSIGN(const format::GgufSet set, format::open_gguf_set(io, from));
  for (const auto& [key, value] : set.metadata.entries()) {
    const bool is_remade = key.starts_with("qwen4exp.") || key.starts_with("evros.") || key.starts_with("split.") ||
                           key.starts_with("quantize.") || key == "general.alignment";
    if (!is_remade || key == "qwen4exp.ple.image_token_id") writer.set(key, value);
  }
  return {};
}

/// The placeholder of images, which other readers hash; config.json has it at its top level.
void set_image_token(const format::ModelFile& source, format::GgufWriter& writer) {
  for (const format::MetadataEntry& entry : source.metadata()) {
    if (entry.key != "image_token_id") continue;
    uint32_t id = 0;
    const auto [end, error] = std::from_chars(entry.value.data(), entry.value.data() + entry.value.size(), id);
    if (error == std::errc() && *end == '\0') writer.set("qwen4exp.ple.image_token_id", GgufValue::u32(id));
  }
}

/// The source's text assets with tokenizer.json turned into arrays, tried out before anything is written.
Result<format::TextAssets> exported_text(const format::ModelFile& source) {
  format::TextAssets text = source.text();
  text::TokenizerSpec spec{text.tokenizer_json, text.model, text.pre, text.tokens, text.token_types,
                           text.merges,         {},         text.nfc, {}};
  if (spec.tokenizer_json.empty() && spec.tokens.empty()) return text;
  const auto in_file = [&](const Error& error) { return Error{error.code, cat(source.path(), ": ", error.message)}; };
  auto arrays = text::to_arrays(spec, static_cast<size_t>(source.hyper().vocab));
  if (!arrays.ok()) return in_file(arrays.error());
  if (const auto tokenizer = text::Tokenizer::create(*arrays); !tokenizer.ok()) return in_file(tokenizer.error());
  text.model = std::move(arrays->model);
  text.pre = std::move(arrays->pre);
  text.tokens = std::move(arrays->tokens);
  text.token_types = std::move(arrays->token_types);
  text.merges = std::move(arrays->merges);
  text.nfc = arrays->nfc;
  return text;
}

Status set_keys(io::Io& io, const format::ModelFile& source, const ConvertOptions& options,
                format::GgufWriter& writer) {
  const bool is_gguf = source.container().starts_with("GGUF");
  if (is_gguf) {
    EVROS_TRY(copy_keys(io, source.path(), writer));
  } else if (!source.hyper().ple.empty()) {
    set_image_token(source, writer);
  }
  format::HyperParams hyper = source.hyper();
  if (!options.mtp) hyper.mtp_layers = 0;
  EVROS_TRY(set_hyper_keys(writer, hyper, source.path()));
  EVROS_ASSIGN(const format::TextAssets text, exported_text(source));
  set_text_keys(writer, text);
  set_sampling_keys(writer, source.sampling());
  writer.set("general.type", GgufValue::string("model"));
  writer.set("general.name", GgufValue::string(options.name.empty() ? source.name() : options.name));
  writer.set("general.file_type", GgufValue::u32(file_type(options.type)));
  writer.set("general.quantization_version", GgufValue::u32(2));
  return {};
}

/// Streams tensors, some rows at a time, through buffers that are kept from one to the next.
class TensorCopier {
 public:
  TensorCopier(const format::ModelFile& source, format::GgufWriter& writer, const Progress& progress, uint64_t total)
      : source_(source), writer_(writer), progress_(progress), total_(total) {}

  Status copy(const Planned& planned, size_t number) {
    const Tensor& tensor = *planned.source;
    const uint64_t step = std::max<uint64_t>(kStepElements / tensor.ne[0], 1);
    const uint64_t row_in = format::row_bytes(tensor.type, tensor.ne[0]);
    const uint64_t row_out = format::row_bytes(planned.type, tensor.ne[0]);
    for (uint64_t row = 0; row < tensor.rows(); row += step) {
      const uint64_t rows = std::min(step, tensor.rows() - row);
      stored_.resize(rows * row_in);
      EVROS_TRY(source_.read(tensor, row * row_in, stored_));
      EVROS_TRY(encode(planned, rows * tensor.ne[0], rows * row_out));
      EVROS_TRY(writer_.write(number, row * row_out, is_copied(planned) ? stored_ : encoded_));
      done_ += stored_.size();
      report(progress_, done_, total_);
    }
    return {};
  }

 private:
  static bool is_copied(const Planned& planned) {
    return planned.type == planned.source->type && planned.source->derive == format::Derive::none;
  }

  /// Checks `stored_` and, when it is not copied, makes `encoded_` from it.
  Status encode(const Planned& planned, uint64_t elements, uint64_t bytes) {
    const Tensor& tensor = *planned.source;
    if (kernels::can_multiply(tensor.type) && !kernels::scales_finite(tensor.type, stored_))
      return bad(tensor, "holds a value or scale that is NaN or infinite");
    if (is_copied(planned)) return {};
    values_.resize(elements);
    kernels::dequantize(tensor.type, stored_.data(), values_);
    if (tensor.derive == format::Derive::plus_one) kernels::plus_one(values_);
    if (tensor.derive == format::Derive::neg_exp) kernels::neg_exp(values_);
    encoded_.resize(bytes);
    kernels::quantize_weights(planned.type, values_, encoded_.data());
    if (!kernels::scales_finite(planned.type, encoded_))
      return bad(tensor, cat("holds a value that is too large for ", format::type_info(planned.type).name));
    return {};
  }

  Error bad(const Tensor& tensor, std::string_view what) const {
    return {Code::bad_file, cat(source_.path(), ": tensor ", tensor.stored_name, ' ', what)};
  }

  const format::ModelFile& source_;
  format::GgufWriter& writer_;
  const Progress& progress_;
  uint64_t total_, done_ = 0;
  std::vector<std::byte> stored_, encoded_;
  std::vector<float> values_;
};

}  // namespace

Result<ConvertSummary> convert(io::Io& io, const std::string& from, const std::string& to,
                               const ConvertOptions& options, const Progress& progress) {
  EVROS_ASSIGN(const std::unique_ptr<format::ModelFile> source, format::open_model(io, from));
  EVROS_TRY(check_request(io, *source, to, options));
  EVROS_ASSIGN(const std::vector<Planned> planned, plan_tensors(*source, options));
  format::GgufWriter writer(io, to);
  EVROS_TRY(set_keys(io, *source, options, writer));
  ConvertSummary summary;
  for (const Planned& p : planned) {
    writer.add({p.source->name, p.type, p.source->ne, p.source->dims});
    summary.bytes_read += p.source->bytes();
  }
  EVROS_TRY(writer.begin());
  TensorCopier copier(*source, writer, progress, summary.bytes_read);
  for (size_t i = 0; i < planned.size(); ++i) EVROS_TRY(copier.copy(planned[i], i));
  EVROS_TRY(writer.finish());
  summary.tensors = planned.size();
  summary.bytes_written = writer.total_bytes();
  return summary;
}

}  // namespace evros::ops
