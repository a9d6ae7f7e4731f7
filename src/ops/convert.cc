#include "ops/convert.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <unordered_map>

#include "base/str.h"
#include "device/pool.h"
#include "format/expected_tensors.h"
#include "format/gguf_writer.h"
#include "format/message.h"
#include "format/model_file.h"
#include "kernels/derive.h"
#include "kernels/kernels.h"
#include "ops/gguf_keys.h"
#include "ops/large_file.h"
#include "text/export.h"
#include "text/tokenizer.h"

namespace evros::ops {
namespace {

using format::GgufValue;
using format::Tensor;
using format::TensorType;

/// Elements that are decoded at a time, by all threads together, rounded to whole rows.
constexpr uint64_t kStepElements = 1u << 21;
/// How often a conversion that may be stopped notes how far it is.
constexpr uint64_t kNotes = 256;

struct Planned {
  const Tensor* source;
  TensorType type;

  bool is_copied() const { return type == source->type && source->derive == format::Derive::none; }
  /// An importance matrix has a say in it.
  bool weighs_columns() const { return !is_copied() && kernels::weighs_columns(type); }
  /// Of the new tensor.
  uint64_t bytes() const { return format::row_bytes(type, source->ne[0]) * source->rows(); }
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
    case TensorType::q5_k:
      return 16;
    case TensorType::q6_k:
      return 18;
    case TensorType::iq4_nl:
      return 25;
    case TensorType::bf16:
      return 32;
    default:
      return 0;
  }
}

bool is_target(TensorType type) {
  using enum TensorType;
  constexpr TensorType kTargets[] = {f32, f16, bf16, q8_0, q6_k, q5_k, q4_k, q4_0, iq4_nl};
  return std::find(std::begin(kTargets), std::end(kTargets), type) != std::end(kTargets);
}

bool is_table(const Tensor& tensor) { return tensor.name.ends_with("per_layer_token_embd.weight"); }

/// Which type each tensor gets: ConvertOptions says the rules.
class TypeChoice {
 public:
  TypeChoice(const format::HyperParams& hyper, const ConvertOptions& options)
      : wanted_(options.type), table_(options.table_type.value_or(usual_table(options.type))) {
    for (const format::TensorShape& shape : format::expected_tensors(hyper)) small_.emplace(shape.name, shape.small);
  }

  TensorType operator()(const Tensor& tensor) const {
    const std::string_view name = tensor.name;
    if (is_table(tensor)) return is_whole(tensor, table_) ? table_ : TensorType::f16;
    if (wanted_ == TensorType::f32) return wanted_;
    const auto found = small_.find(tensor.name);
    if (found != small_.end() && found->second) return TensorType::f32;
    if (name.ends_with(".ssm_alpha.weight") || name.ends_with(".ssm_beta.weight")) return TensorType::f32;
    if (name.ends_with(".indexer.q_proj.weight") || name.ends_with(".indexer.k_proj.weight")) return tensor.type;
    if (is_whole(tensor, wanted_)) return wanted_;
    if (format::type_info(wanted_).block_elements != 256 || !is_whole(tensor, TensorType::q8_0)) return TensorType::f16;
    return name.ends_with(".ffn_down_exps.weight") && wanted_ != TensorType::q6_k ? TensorType::q5_1 : TensorType::q8_0;
  }

 private:
  static TensorType usual_table(TensorType type) {
    if (type == TensorType::q4_k || type == TensorType::q5_k) return TensorType::iq4_nl;
    return type == TensorType::q6_k ? TensorType::q8_0 : type;
  }
  static bool is_whole(const Tensor& tensor, TensorType type) {
    return tensor.ne[0] % format::type_info(type).block_elements == 0;
  }

  TensorType wanted_, table_;
  std::unordered_map<std::string, bool> small_;
};

Status check_request(io::Io& io, const format::ModelFile& source, const std::string& to,
                     const ConvertOptions& options) {
  const auto refuse = [](TensorType type) {
    return Error{Code::invalid_argument,
                 cat("the type ", format::type_info(type).name,
                     " cannot be written; possible are f32, f16, bf16, q8_0, q6_k, q5_k, q4_k, q4_0 and iq4_nl")};
  };
  if (!is_target(options.type)) return refuse(options.type);
  if (options.table_type && !is_target(*options.table_type) && *options.table_type != TensorType::q5_1)
    return refuse(*options.table_type);
  if (!to.ends_with(".gguf"))
    return Error{Code::invalid_argument, cat("the file to write is ", to, "; its name must end in .gguf")};
  EVROS_TRY(io.check_target(to));
  for (const std::string& path : source.files()) {
    if (io.same_file(path, to))
      return Error{Code::invalid_argument, cat(to, " would be written over the model that is read")};
  }
  return {};
}

/// A table type that is asked for by name is not quietly another.
Status check_table(const Tensor& tensor, const ConvertOptions& options) {
  if (!is_table(tensor) || !options.table_type) return {};
  const format::TypeInfo& info = format::type_info(*options.table_type);
  if (tensor.ne[0] % info.block_elements == 0) return {};
  return Error{Code::invalid_argument, cat("the n-gram table cannot be ", info.name, ": its rows have ", tensor.ne[0],
                                           " elements, which are no whole number of blocks of ", info.block_elements)};
}

Result<std::vector<Planned>> plan_tensors(const format::ModelFile& source, const ConvertOptions& options) {
  const format::HyperParams& hyper = source.hyper();
  const TypeChoice choose(hyper, options);
  const std::string draft = cat("blk.", hyper.layers, '.');
  std::vector<Planned> planned;
  format::Problems problems;
  for (const Tensor& tensor : source.tensors()) {
    if (!options.mtp && hyper.mtp_layers > 0 && tensor.name.starts_with(draft)) continue;
    EVROS_TRY(check_table(tensor, options));
    if (tensor.name.ends_with(".scale")) {
      return Error{Code::unsupported,
                   cat(source.path(), ": tensor ", tensor.name,
                       " multiplies another one as a whole (NVFP4); convert does not carry that over")};
    }
    if (tensor.name.ends_with(".input_scale")) continue;  // of activations, for other programs
    planned.push_back({&tensor, choose(tensor)});
    if (planned.back().type != tensor.type && !kernels::can_multiply(tensor.type))
      problems.add_type(tensor.stored_name, tensor.type);
  }
  if (!problems.empty()) return problems.error(Code::unsupported, source.path());
  return planned;
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
  TensorCopier(const format::ModelFile& source, format::GgufWriter& writer, const Progress& progress, uint64_t total,
               const ConvertOptions& options, const ColumnWeights& importance)
      : source_(source),
        writer_(writer),
        progress_(progress),
        importance_(importance),
        pool_(device::thread_count(options.threads)),
        stop_(options.stop),
        resumable_(options.resume),
        total_(total) {}

  /// Rows of tensor `number` from `offset` bytes of the new file's on.
  Status copy(const Planned& planned, size_t number, uint64_t offset) {
    const Tensor& tensor = *planned.source;
    const uint64_t step = std::max<uint64_t>(kStepElements / tensor.ne[0], 1);
    const uint64_t row_in = format::row_bytes(tensor.type, tensor.ne[0]);
    const uint64_t row_out = format::row_bytes(planned.type, tensor.ne[0]);
    done_ += offset / row_out * row_in;
    columns_ = planned.weighs_columns() ? importance_.of(tensor) : std::vector<std::vector<float>>{};
    for (uint64_t row = offset / row_out; row < tensor.rows(); row += step) {
      const uint64_t rows = std::min(step, tensor.rows() - row);
      stored_.resize(rows * row_in);
      EVROS_TRY(source_.read(tensor, row * row_in, stored_));
      EVROS_TRY(encode(planned, row, rows, row_in, row_out));
      EVROS_TRY(writer_.write(number, row * row_out, planned.is_copied() ? stored_ : encoded_));
      done_ += stored_.size();
      report(progress_, done_, total_);
      unnoted_ += stored_.size();
      const Status stopped = check_stop(stop_);
      if (resumable_ && (unnoted_ >= total_ / kNotes || !stopped.ok())) {
        unnoted_ = 0;
        EVROS_TRY(writer_.note({number, (row + rows) * row_out}));
      }
      EVROS_TRY(stopped);
    }
    return {};
  }
  /// What an earlier call has done.
  void skip(const Planned& planned) { done_ += planned.source->bytes(); }

 private:
  /// Checks `stored_` and, when it is not copied, makes `encoded_` from it, every thread some of the rows,
  /// of which the first is the tensor's row `top`.
  Status encode(const Planned& planned, uint64_t top, uint64_t rows, uint64_t row_in, uint64_t row_out) {
    const Tensor& tensor = *planned.source;
    encoded_.resize(planned.is_copied() ? 0 : rows * row_out);
    values_.resize(planned.is_copied() ? 0 : rows * tensor.ne[0]);
    std::atomic<bool> stored_finite{true}, encoded_finite{true};
    pool_.parallel(static_cast<int64_t>(rows), [&](int64_t begin, int64_t end) {
      const auto first = static_cast<uint64_t>(begin), count = static_cast<uint64_t>(end) - first;
      const auto in = std::span(stored_).subspan(first * row_in, count * row_in);
      if (kernels::can_multiply(tensor.type) && !kernels::scales_finite(tensor.type, in)) stored_finite = false;
      if (planned.is_copied()) return;
      const auto values = std::span(values_).subspan(first * tensor.ne[0], count * tensor.ne[0]);
      kernels::dequantize(tensor.type, in.data(), values);
      if (tensor.derive == format::Derive::plus_one) kernels::plus_one(values);
      if (tensor.derive == format::Derive::neg_exp) kernels::neg_exp(values);
      const auto out = std::span(encoded_).subspan(first * row_out, count * row_out);
      quantise(planned, top + first, values, out.data());
      if (!kernels::scales_finite(planned.type, out)) encoded_finite = false;
    });
    if (!stored_finite) return bad(tensor, "holds a value or scale that is NaN or infinite");
    if (!encoded_finite)
      return bad(tensor, cat("holds a value that is too large for ", format::type_info(planned.type).name));
    return {};
  }

  /// Rows of a tensor from row `row` on, by the column weights of their experts where there are some.
  void quantise(const Planned& planned, uint64_t row, std::span<const float> values, std::byte* out) const {
    if (columns_.empty()) return kernels::quantize_weights(planned.type, values, out);
    const uint64_t width = planned.source->ne[0], row_out = format::row_bytes(planned.type, width);
    for (size_t at = 0; at < values.size(); at += width, ++row, out += row_out) {
      const std::vector<float>& columns = columns_[row / planned.source->ne[1]];
      if (columns.empty())
        kernels::quantize_weights(planned.type, values.subspan(at, width), out);
      else
        kernels::quantize_weights(planned.type, values.subspan(at, width), columns, out);
    }
  }

  Error bad(const Tensor& tensor, std::string_view what) const {
    return {Code::bad_file, cat(source_.path(), ": tensor ", tensor.stored_name, ' ', what)};
  }

  const format::ModelFile& source_;
  format::GgufWriter& writer_;
  const Progress& progress_;
  const ColumnWeights& importance_;
  std::vector<std::vector<float>> columns_;  // of the tensor that is being copied, by expert
  device::Pool pool_;
  const std::atomic<bool>* stop_;
  const bool resumable_;
  uint64_t total_, done_ = 0, unnoted_ = 0;
  std::vector<std::byte> stored_, encoded_;
  std::vector<float> values_;
};

/// Names and sizes of the source's files, and the importance matrix: what a stopped conversion is gone on with for.
Result<std::string> describe_source(io::Io& io, const format::ModelFile& source, const ColumnWeights& importance) {
  std::string text = importance.identity();
  for (const std::string& path : source.files()) {
    EVROS_ASSIGN(const std::unique_ptr<io::File> file, io.open(path));
    text += cat(path, ' ', file->size(), '\n');
  }
  return text;
}

/// Goes on with what an earlier call left, or begins anew, and says which.
Result<format::GgufMark> resume(io::Io& io, const std::string& to, const std::string& files,
                                const std::vector<Planned>& planned, const ConvertOptions& options,
                                format::GgufWriter& writer) {
  const std::string partial = to + ".partial";
  const bool was_there = io.exists(partial);
  EVROS_ASSIGN(const format::GgufMark mark, writer.resume(files));
  if (!options.notice) return mark;
  uint64_t done = mark.offset, all = 0;
  for (size_t i = 0; i < planned.size(); ++i) {
    if (i < mark.number) done += planned[i].bytes();
    all += planned[i].bytes();
  }
  options.notice(done > 0 ? cat("going on with ", partial, ", which has ", human_bytes(done), " of ", human_bytes(all))
                 : was_there
                     ? cat("beginning anew: ", partial, " held nothing of the same source and options to go on with")
                     : cat("beginning anew: there is no ", partial));
  return mark;
}

}  // namespace

Result<ConvertSummary> convert(io::Io& io, const std::string& from, const std::string& to,
                               const ConvertOptions& options, const Progress& progress) {
  EVROS_ASSIGN(const std::unique_ptr<format::ModelFile> source, format::open_model(io, from));
  EVROS_TRY(check_request(io, *source, to, options));
  EVROS_ASSIGN(const std::vector<Planned> planned, plan_tensors(*source, options));
  EVROS_ASSIGN(const ColumnWeights importance, ColumnWeights::load(io, options.imatrix));
  format::GgufWriter writer(io, to);
  EVROS_TRY(set_keys(io, *source, options, writer));
  ConvertSummary summary;
  uint64_t bytes = 0;
  for (const Planned& p : planned) {
    EVROS_TRY(importance.check(*p.source));
    if (p.weighs_columns()) importance.count(*p.source, summary.importance);
    writer.add({p.source->name, p.type, p.source->ne, p.source->dims});
    summary.bytes_read += p.source->bytes();
    bytes += p.bytes();
  }
  if (summary.importance.weighted > 0) importance.set_keys(writer);
  EVROS_TRY(check_space(io, to, bytes));
  format::GgufMark mark;
  if (options.resume) {
    EVROS_ASSIGN(const std::string files, describe_source(io, *source, importance));
    EVROS_ASSIGN(mark, resume(io, to, files, planned, options, writer));
  } else {
    EVROS_TRY(writer.begin());
  }
  TensorCopier copier(*source, writer, progress, summary.bytes_read, options, importance);
  for (size_t i = 0; i < planned.size(); ++i) {
    if (i < mark.number) {
      copier.skip(planned[i]);
    } else {
      EVROS_TRY(copier.copy(planned[i], i, i == mark.number ? mark.offset : 0));
    }
  }
  EVROS_TRY(writer.finish());
  summary.tensors = planned.size();
  summary.bytes_written = writer.total_bytes();
  return summary;
}

}  // namespace evros::ops
