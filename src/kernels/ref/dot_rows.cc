#include "kernels/ref/dot_rows.h"

#include "kernels/codec/codec.h"
#include "kernels/ref/chains.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace {

/// Block `block` of a lane's row, where it lies or gathered into `buffer`.
template <typename Codec>
EVROS_INLINE const std::byte* block_of(const DotRows& work, int lane, int64_t block, std::byte* buffer) {
  if (work.strip.data == nullptr) return work.row[lane] + block * Codec::kBytes;
  gather_block(work.strip, work.first_lane + lane, block, pieces_of(work.type, Codec::kBytes), buffer);
  return buffer;
}

/// A segment of every lane's row as floats, k-major, so that the lanes of one k lie side by side.
struct FloatSegment {
  float w[kSegment][kLanes];
};

template <typename Codec>
void decode_segment(const DotRows& work, int64_t k0, int64_t n, FloatSegment& out) {
  float values[Codec::kBlock];
  std::byte buffer[Codec::kBytes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const int source = lane < work.lanes ? lane : 0;
    for (int64_t k = 0; k < n; k += Codec::kBlock) {
      Codec::decode(block_of<Codec>(work, source, (k0 + k) / Codec::kBlock, buffer), values);
      for (int i = 0; i < Codec::kBlock; ++i) out.w[k + i][lane] = values[i];
    }
  }
}

/// y = acc for the first segment, y + acc for every later one.
EVROS_INLINE void add_segment(const float (&acc)[kLanes], bool first, int lanes, float* y) {
  for (int lane = 0; lane < lanes; ++lane) y[lane] = first ? acc[lane] : y[lane] + acc[lane];
}

/// One segment of the float chain for kCount vectors from `column` on.
template <int kCount>
EVROS_INLINE void float_segment(const DotRows& work, const FloatSegment& segment, int64_t k0, int64_t n, int column) {
  float acc[kCount][kLanes] = {};
  for (int64_t k = 0; k < n; ++k) {
    for (int c = 0; c < kCount; ++c) {
      const float x = work.x[column + c][k0 + k];
      for (int lane = 0; lane < kLanes; ++lane) acc[c][lane] = fma(segment.w[k][lane], x, acc[c][lane]);
    }
  }
  for (int c = 0; c < kCount; ++c) add_segment(acc[c], k0 == 0, work.lanes, work.y[column + c]);
}

template <typename Codec>
void float_rows(const DotRows& work) {
  FloatSegment segment;
  for (int64_t k0 = 0; k0 < work.k; k0 += kSegment) {
    const int64_t n = smaller(kSegment, work.k - k0);
    decode_segment<Codec>(work, k0, n, segment);
    int column = 0;
    for (; column + 4 <= work.columns; column += 4) float_segment<4>(work, segment, k0, n, column);
    for (; column < work.columns; ++column) float_segment<1>(work, segment, k0, n, column);
  }
}

/// A segment of every lane's row as integers and scales.
template <typename Codec>
struct IntegerSegment {
  static constexpr int kGroups = kSegment / Codec::kGroup;
  int8_t q[kLanes][kSegment];
  float scale[kLanes][kGroups], minimum[kLanes][kGroups];

  void decode(const DotRows& work, int64_t k0, int64_t n) {
    std::byte buffer[Codec::kBytes];
    for (int lane = 0; lane < work.lanes; ++lane) {
      for (int64_t k = 0; k < n; k += Codec::kBlock) {
        const std::byte* block = block_of<Codec>(work, lane, (k0 + k) / Codec::kBlock, buffer);
        const int64_t group = k / Codec::kGroup;
        if constexpr (Codec::kMinimum) {
          Codec::decode_groups(block, &q[lane][k], &scale[lane][group], &minimum[lane][group]);
        } else {
          Codec::decode_groups(block, &q[lane][k], &scale[lane][group]);
        }
      }
    }
  }
};

template <int kGroup>
EVROS_INLINE int32_t integer_dot(const int8_t* w, const int8_t* x) {
  int32_t sum = 0;
  for (int i = 0; i < kGroup; ++i) sum += w[i] * x[i];
  return sum;
}

template <int kGroup>
EVROS_INLINE int32_t integer_sum(const int8_t* x) {
  int32_t sum = 0;
  for (int i = 0; i < kGroup; ++i) sum += x[i];
  return sum;
}

template <typename Codec>
void integer_rows(const DotRows& work) {
  IntegerSegment<Codec> segment;
  for (int64_t k0 = 0; k0 < work.k; k0 += kSegment) {
    const int64_t n = smaller(kSegment, work.k - k0);
    segment.decode(work, k0, n);
    for (int column = 0; column < work.columns; ++column) {
      float acc[kLanes] = {};
      for (int64_t k = 0; k < n; k += Codec::kGroup) {
        const QuantSegment& x = work.q[column][k0 / kSegment];
        const int8_t* q = x.q + k;
        const float d = x.d[k / 32];
        for (int lane = 0; lane < work.lanes; ++lane) {
          const int32_t dot = integer_dot<Codec::kGroup>(&segment.q[lane][k], q);
          acc[lane] = fma(segment.scale[lane][k / Codec::kGroup] * d, static_cast<float>(dot), acc[lane]);
        }
        if constexpr (Codec::kMinimum) {
          const float sum = static_cast<float>(integer_sum<Codec::kGroup>(q));
          for (int lane = 0; lane < work.lanes; ++lane) {
            acc[lane] = fma(-(segment.minimum[lane][k / Codec::kGroup] * d), sum, acc[lane]);
          }
        }
      }
      add_segment(acc, k0 == 0, work.lanes, work.y[column]);
    }
  }
}

}  // namespace

void dot_rows(const DotRows& work) {
  with_codec(work.type, [&]<typename Codec>() {
    if constexpr (Codec::kQuantised) {
      if (work.integers) return integer_rows<Codec>(work);
    }
    float_rows<Codec>(work);
  });
  if (work.scale == nullptr) return;
  for (int c = 0; c < work.columns; ++c) {
    for (int lane = 0; lane < work.lanes; ++lane) work.y[c][lane] = work.y[c][lane] * *work.scale;
  }
}

int64_t weight_row_bytes(format::TensorType type, int64_t k) {
  int64_t bytes = 0;
  with_codec(type, [&]<typename Codec>() { bytes = k / Codec::kBlock * Codec::kBytes; });
  return bytes;
}

bool is_quantised(format::TensorType type) {
  bool quantised = false;
  with_codec(type, [&]<typename Codec>() { quantised = Codec::kQuantised; });
  return quantised;
}

void decode_row(const Matrix& matrix, int64_t row, float* out) {
  const Strip strip = strip_of(matrix, row / kStripRows);
  with_codec(matrix.type, [&]<typename Codec>() {
    std::byte block[Codec::kBytes];
    for (int64_t i = 0; i < matrix.cols / Codec::kBlock; ++i) {
      gather_block(strip, row % kStripRows, i, pieces_of(matrix.type, Codec::kBytes), block);
      Codec::decode(block, out + i * Codec::kBlock);
    }
  });
}

void decode_row(format::TensorType type, const std::byte* row, int64_t n, float* out) {
  with_codec(type, [&]<typename Codec>() {
    for (int64_t i = 0; i < n; i += Codec::kBlock, row += Codec::kBytes) Codec::decode(row, out + i);
  });
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
