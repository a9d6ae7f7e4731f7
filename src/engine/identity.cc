#include "engine/identity.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <vector>

namespace evros::engine {
namespace {

constexpr std::string_view kVersion = "evros model 1";
constexpr uint64_t kSampleBytes = 4096;

// Everything as 64-bit little-endian values and length-prefixed strings: no two models give the same stream.
class Stream {
 public:
  void number(uint64_t value) { hash_.update(std::as_bytes(std::span(&value, 1))); }
  void real(double value) { number(std::bit_cast<uint64_t>(value)); }
  void text(std::string_view value) {
    number(value.size());
    hash_.update(std::as_bytes(std::span(value)));
  }
  void bytes(std::span<const std::byte> value) {
    number(value.size());
    hash_.update(value);
  }
  template <typename List>
  void numbers(const List& list) {
    number(list.size());
    for (const auto value : list) number(static_cast<uint64_t>(value));
  }
  Sha256Digest finish() { return hash_.finish(); }

 private:
  Sha256 hash_;
};

// context_length is left out: it bounds what may be asked for and changes no result.
void put_hyper(Stream& out, const format::HyperParams& h) {
  for (const int64_t value : {int64_t{h.layers},
                              int64_t{h.hidden},
                              int64_t{h.vocab},
                              int64_t{h.tied_embeddings},
                              int64_t{h.hc_count},
                              int64_t{h.hc_lowrank},
                              int64_t{h.heads},
                              int64_t{h.kv_heads},
                              int64_t{h.key_dim},
                              int64_t{h.value_dim},
                              int64_t{h.rope_dims},
                              int64_t{h.index_heads},
                              int64_t{h.index_dim},
                              int64_t{h.index_budget},
                              int64_t{h.linear_key_heads},
                              int64_t{h.linear_value_heads},
                              int64_t{h.linear_key_dim},
                              int64_t{h.linear_value_dim},
                              int64_t{h.conv_kernel},
                              static_cast<int64_t>(h.output_gate),
                              int64_t{h.experts},
                              int64_t{h.experts_used},
                              int64_t{h.expert_ff},
                              int64_t{h.shared_ff},
                              int64_t{h.norm_topk_prob},
                              int64_t{h.ngram_size},
                              int64_t{h.heads_per_ngram},
                              int64_t{h.ple_conv_kernel},
                              int64_t{h.ple_row_width},
                              h.ple_eos}) {
    out.number(static_cast<uint64_t>(value));
  }
  out.number(h.ple_table_rows);
  out.real(h.rms_eps);
  out.real(h.rope_theta);
  out.numbers(h.layer_kind);
  out.numbers(h.rope_sections);
  out.numbers(h.compress_ratio);
  out.number(h.ple.size());
  for (const format::PleLayer& ple : h.ple) {
    out.number(static_cast<uint64_t>(ple.layer));
    out.numbers(ple.multipliers);
    out.numbers(ple.head_vocab);
    out.numbers(ple.head_offset);
  }
}

/// [offset, offset + count) of the tensor, read as whole rows where its columns are reordered.
Status put_range(Stream& out, const format::ModelFile& file, const format::Tensor& tensor, uint64_t offset,
                 uint64_t count) {
  const uint64_t unit = tensor.columns.key_heads != 0 ? format::row_bytes(tensor.type, tensor.ne[0]) : 1;
  const uint64_t begin = offset / unit * unit, end = (offset + count + unit - 1) / unit * unit;
  std::vector<std::byte> data(end - begin);
  EVROS_TRY(file.read(tensor, begin, data));
  out.bytes(std::span(data).subspan(offset - begin, count));
  return {};
}

Status put_tensor(Stream& out, const format::ModelFile& file, const format::Tensor& tensor) {
  out.text(tensor.name);
  out.number(static_cast<uint64_t>(tensor.type));
  out.numbers(tensor.ne);
  out.number(static_cast<uint64_t>(tensor.derive));
  const uint64_t sample = std::min(kSampleBytes, tensor.bytes());
  EVROS_TRY(put_range(out, file, tensor, 0, sample));
  return put_range(out, file, tensor, tensor.bytes() - sample, sample);
}

}  // namespace

Result<Sha256Digest> model_identity(const format::ModelFile& file) {
  Stream out;
  out.text(kVersion);
  put_hyper(out, file.hyper());
  std::vector<const format::Tensor*> order;
  for (const format::Tensor& tensor : file.tensors()) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  out.number(order.size());
  for (const format::Tensor* tensor : order) EVROS_TRY(put_tensor(out, file, *tensor));
  return out.finish();
}

}  // namespace evros::engine
