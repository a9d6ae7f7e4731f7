#include "model/ngram.h"

#include "base/check.h"

namespace evros::model {

void ngram_rows(const format::HyperParams& hyper, const format::PleLayer& ple, std::span<const int64_t> window,
                std::span<uint64_t> rows) {
  CHECK(window.size() == static_cast<size_t>(hyper.ngram_size));
  CHECK(rows.size() == static_cast<size_t>(hyper.ple_heads()));
  // Multipliers are below 2^63 / vocab and ids below vocab, so no product wraps and the xor stays non-negative.
  uint64_t hash = static_cast<uint64_t>(window[0]) * ple.multipliers[0];
  bool cut = false;
  size_t head = 0;
  for (size_t order = 2; order <= window.size(); ++order) {
    cut = cut || window[order - 1] == hyper.ple_eos;
    const int64_t id = cut ? hyper.ple_eos : window[order - 1];
    hash ^= static_cast<uint64_t>(id) * ple.multipliers[order - 1];
    for (int32_t i = 0; i < hyper.heads_per_ngram; ++i, ++head) {
      rows[head] = hash % ple.head_vocab[head] + ple.head_offset[head];
    }
  }
}

}  // namespace evros::model
