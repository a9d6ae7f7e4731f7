// A model in any container as one GGUF file: a safetensors folder converted, or a GGUF file written again in other
// types.
#pragma once

#include <string>

#include "base/progress.h"
#include "base/result.h"
#include "format/tensor_type.h"
#include "io/io.h"

namespace evros::ops {

struct ConvertOptions {
  /// f32, f16, bf16, q8_0, q4_0, q4_k or q6_k. Matrices and the n-gram table get it. Norms, convolutions, the router, inject,
  /// shared gate, ssm_alpha and ssm_beta are F32; index projections, which decide discrete choices, keep the type they
  /// have; a matrix whose rows are no whole number of blocks is Q8_0 where the blocks wanted have 256 elements and rows
  /// have whole blocks of 32, else F16. With f32 every tensor is F32.
  format::TensorType type = format::TensorType::q8_0;
  std::string name;  // general.name; empty: the source's
  bool mtp = true;   // keep the draft head
};

struct ConvertSummary {
  uint64_t tensors = 0, bytes_read = 0, bytes_written = 0;
};

/// Reads `from` as format::open_model does and writes `to`, which must end in ".gguf". Derivations (1 + w, -exp(A_log))
/// are applied and the value heads reordered, so that the new file gives the same bits as the source wherever a type is
/// kept or widened. Tensors that already have their type are copied. The file is as other readers of this family expect
/// it (docs/model.md 4.1 to 4.3), tokenizer arrays and chat template included.
///
/// Memory stays at some tens of megabytes (or one row) whatever the tensors' size. `to` is never a torn file: the data
/// grows under another name, is flushed and renamed; on failure nothing is left and an older `to` is untouched.
/// Progress counts bytes read.
///
/// Errors: those of open_model; Code::invalid_argument for a type or path that has no meaning; Code::unsupported for
/// what cannot be expressed or decoded, every tensor concerned in one sentence; Code::bad_file for a value that is NaN,
/// infinite or too large for its new type.
Result<ConvertSummary> convert(io::Io& io, const std::string& from, const std::string& to,
                               const ConvertOptions& options, const Progress& progress);

}  // namespace evros::ops
