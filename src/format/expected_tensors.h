// The one list of what a model consists of: every tensor that a HyperParams calls for, by GGUF name and shape
// (docs/model.md 4.1 and 4.2). Readers check files against it, `convert` and `synth` write by it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/hyper_params.h"
#include "format/message.h"
#include "format/model_file.h"

namespace evros::format {

struct TensorShape {
  std::string name;                        // GGUF name
  std::array<uint64_t, 4> ne{1, 1, 1, 1};  // ne[0] contiguous (input dimension)
  int dims = 1;
  bool small = false;     // norms, convolutions, gates, router, inject: F32, F16 or BF16 only, F32 when we write
  bool optional = false;  // a file may lack it: index tensors of a dense full layer (the MTP block is one)

  uint64_t elements() const { return ne[0] * ne[1] * ne[2] * ne[3]; }
};

/// In the order of a GGUF file: embedding and head, then block by block, each PLE layer's tensors with its block, the
/// n-gram table after the first PLE block; the MTP block last. `hyper` is valid. The real model without MTP has 1,224.
std::vector<TensorShape> expected_tensors(const HyperParams& hyper);

/// Where NVFP4 files keep the number that a matrix is multiplied with as a whole, of experts one for each: the weight's name with
/// "scale" in place of "weight".
std::string outer_scale_name(std::string_view weight);

/// Checks that every expected tensor is there, has its shape and a type it may have, and that there is nothing unknown
/// (a bias that would silently be left out). Matrices may have an outer scale; scales of activations (".input_scale"), which
/// products in four bits would need, may be there and are left out. All problems stand in one error, after the `problems` that were
/// found before; `path` is the file it names.
/// Optional extras of other writers (dedicated MTP embeddings and heads) are known and may be present.
Status check_tensors(const HyperParams& hyper, std::span<const Tensor> tensors, std::string_view path,
                     Problems problems = {});

}  // namespace evros::format
