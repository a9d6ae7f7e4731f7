// A model in any container as one GGUF file: a safetensors folder converted, or a GGUF file written again in other
// types.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "base/progress.h"
#include "base/result.h"
#include "format/tensor_type.h"
#include "io/io.h"
#include "ops/column_weights.h"

namespace evros::ops {

struct ConvertOptions {
  /// f32, f16, bf16, q8_0, q6_k, q5_k, q4_k, q4_0 or iq4_nl: the type of matrices. Norms, convolutions, the router, inject,
  /// shared gate, ssm_alpha and ssm_beta are F32; index projections, which decide discrete choices, keep the type they
  /// have. Rows that are no whole number of blocks: with blocks of 256 elements and rows of whole blocks of 32, the
  /// experts' down projections of q4_k and q5_k are Q5_1, as in published files, and everything else is Q8_0; else F16.
  /// With f32 every tensor is F32.
  format::TensorType type = format::TensorType::q8_0;
  std::string name;  // general.name; empty: the source's
  bool mtp = true;   // keep the draft head
  /// Of the n-gram tables, any of the above and Q5_1. Nothing: IQ4_NL with q4_k and q5_k, as in published files, Q8_0 with q6_k, else
  /// `type`; F16 where its rows are no whole number of such blocks, which is an error for a type given here.
  std::optional<format::TensorType> table_type = std::nullopt;
  int threads = 0;  // that quantise; 0: one per core
  /// Go on with TO.partial, if an earlier call with the same source and the same options but `threads` was stopped, and keep it when this
  /// one is. The source is known by the names and sizes of its files: it must not change in between.
  bool resume = false;
  /// A file of format/importance.h, or none: the fits of q4_k, q5_k and q6_k weigh each column by the mean of its squared inputs.
  /// Other types do not look at it.
  std::string imatrix = {};
  /// Set by anybody, it ends the work after the piece in hand, with Code::cancelled. Null: nobody does.
  const std::atomic<bool>* stop = nullptr;
  /// With `resume`, told once, before the work, whether and from where an earlier call's is gone on with.
  std::function<void(const std::string& sentence)> notice = {};
};

struct ConvertSummary {
  uint64_t tensors = 0, bytes_read = 0, bytes_written = 0;
  ImportanceUse importance;  // with ConvertOptions::imatrix
};

/// Reads `from` as format::open_model does and writes `to`, which must end in ".gguf". Derivations (1 + w, -exp(A_log))
/// are applied and the value heads reordered, so that the new file gives the same bits as the source wherever a type is
/// kept or widened. Tensors that already have their type are copied. The file is as other readers of this family expect
/// it (docs/model.md 4.1 to 4.3), tokenizer arrays and chat template included.
///
/// Memory stays at some tens of megabytes (or one row) whatever the tensors' size, a table larger than the
/// machine's memory included. The file does not depend on the number of threads. `to` is never a torn file: the data
/// grows under another name, is flushed and renamed; on failure nothing is left (but see `resume`) and an older `to` is
/// untouched. Progress counts bytes read, those of an earlier call included.
///
/// Errors: those of open_model and read_importance; Code::invalid_argument for a type or path that has no meaning, and for an
/// importance matrix of another shape, tensor and sizes in the sentence; Code::io, before anything is written, when the disk has
/// no room for the new file; Code::unsupported for
/// what cannot be expressed or decoded, every tensor concerned in one sentence; Code::bad_file for a value that is NaN,
/// infinite or too large for its new type.
Result<ConvertSummary> convert(io::Io& io, const std::string& from, const std::string& to,
                               const ConvertOptions& options, const Progress& progress);

}  // namespace evros::ops
