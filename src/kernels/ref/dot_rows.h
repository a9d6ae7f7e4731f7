// Many chains side by side: up to kLanes rows of weights (or of cached keys) times up to kColumns vectors. Each chain is
// the one of docs/numerics.md; chains of different rows and vectors are merely interleaved so that a processor can overlap
// them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/tensor_type.h"
#include "kernels/isa.h"
#include "kernels/kernels.h"
#include "kernels/layout.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

constexpr int kLanes = 16;
constexpr int kColumns = 64;

/// One block of work: y[c][lane] = row[lane] . x[c].
struct DotRows {
  format::TensorType type;
  Strip strip{};  // rows of weights: lanes first_lane ... of a strip; where its data is null,
  int32_t first_lane = 0;
  const std::byte* row[kLanes];  // rows that lie apart
  int lanes;                     // rows in use, 1 ... kLanes
  int64_t k;                     // length of every row
  const float* x[kColumns];
  const QuantSegment* q[kColumns];  // the integer chain's activations; read only when `integers`
  int columns;                      // vectors in use, 1 ... kColumns
  bool integers;                    // quantised weights take the integer chain
  const float* scale = nullptr;     // as Matrix::scale
  float* y[kColumns];
};

void dot_rows(const DotRows& work);

/// Bytes of one row of k elements, for the types that can_multiply().
int64_t weight_row_bytes(format::TensorType type, int64_t k);
bool is_quantised(format::TensorType type);
/// Dequantises n elements of a row that lies by itself, from a block boundary on.
void decode_row(format::TensorType type, const std::byte* row, int64_t n, float* out);
/// Dequantises one row of a matrix.
void decode_row(const Matrix& matrix, int64_t row, float* out);

}  // namespace EVROS_ISA
}  // namespace evros::kernels
