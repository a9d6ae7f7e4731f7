// A file with the real model's shape and no model in it: what reading, planning and paging can be tested on without 111
// GB.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "format/expected_tensors.h"
#include "format/gguf_writer.h"
#include "format/hyper_params.h"
#include "io/io.h"

namespace evros::ops {

/// Qwen3.8-Flash-Next: docs/model.md 1.1 and 1.4. No draft head, as published GGUF files have it.
format::HyperParams real_shape();

/// Rows of the real n-gram table that synth writes, ascending: the first and the last, rows around byte offsets of
/// 2^31, 2^32 and the middle, both ends of every head, and the rows that the test vectors of docs/model.md 1.4 ask for.
std::vector<uint64_t> synth_rows();

/// Bytes of one row: 160 elements of IQ4_NL.
inline constexpr uint64_t kSynthRowBytes = 90;

/// What stands in `row`: a function of the row alone, with finite scales.
void synth_row(uint64_t row, std::span<std::byte, kSynthRowBytes> out);

inline constexpr std::string_view kSynthTable = "per_layer_token_embd.weight";
/// Tensor data in one file of a split set at most.
inline constexpr uint64_t kSynthFileBytes = 50'000'000'000;

/// The type of a tensor in UD-Q4_K_XL, a published 4-bit file: docs/model.md 6.3.
format::TensorType published_type(const format::TensorShape& shape);

/// Every key of a model without a model: hyper-parameters, sampling, a made-up vocabulary of hyper.vocab tokens.
void set_synth_keys(format::GgufWriter& writer, const format::HyperParams& hyper, const std::string& name,
                    const char* description);

struct SynthSummary {
  std::vector<std::string> paths;  // the split set, first file first
  uint64_t apparent_bytes = 0;
  uint64_t tensors = 0;
};

/// Writes the split set PREFIX-0000N-of-00004.gguf, where `to` is PREFIX or PREFIX.gguf: all 1,224 tensors in the types
/// of a published 4-bit file (docs/model.md 6.3), the first file with metadata alone, a vocabulary of the real size
/// made up of numbers. Every weight is a hole of the file system, which reads as zero, but for synth_rows(). Takes some
/// megabytes of disk. As long as it runs, nothing stands under the final names; on failure nothing is left.
///
/// Code::unsupported when the file system keeps no holes: the files would take 111 GB. Code::cancelled soon after `stop` is set.
Result<SynthSummary> synth_real(io::Io& io, const std::string& to, const Progress& progress,
                                const std::atomic<bool>* stop = nullptr);

}  // namespace evros::ops
