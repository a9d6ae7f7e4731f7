// Host-side derivations of weights at load and at conversion (docs/numerics.md, "derived weights"): float32, this math.h,
// so that a safetensors folder and the GGUF made from it give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "format/tensor_type.h"

namespace evros::kernels {

/// Dequantises `out.size()` elements (whole rows) of any type that can_multiply() or that is a plain number type.
void dequantize(format::TensorType type, const std::byte* data, std::span<float> out);

/// Does quantize_weights() make this type? The others can only be read.
bool can_quantize(format::TensorType type);

/// Quantises `in`, whole blocks, to a type that can_quantize(): f32, f16, bf16, q8_0, q4_0 and q5_1 by the reference rounding of PyPI
/// gguf, q4_k, q5_k, q6_k and iq4_nl by searches of our own (kernels/codec/search.h). out has row_bytes(type, in.size()).
void quantize_weights(format::TensorType type, std::span<const float> in, std::byte* out);

/// Do the fits of this type weigh columns: q4_k, q5_k and q6_k?
bool weighs_columns(format::TensorType type);

/// Quantises whole rows of columns.size() elements to a type that weighs_columns(): in the error that its search makes small,
/// an element counts columns[its column] times what it counts without them. The weights are finite and above 0, best around 1.
void quantize_weights(format::TensorType type, std::span<const float> rows, std::span<const float> columns,
                      std::byte* out);

/// False when a block of whole rows holds an infinite or NaN number or scale; such a file is refused at load.
bool scales_finite(format::TensorType type, std::span<const std::byte> rows);

/// In place: 1 + w.
void plus_one(std::span<float> w);
/// In place: -exp(w).
void neg_exp(std::span<float> w);

}  // namespace evros::kernels
