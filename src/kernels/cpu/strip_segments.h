// What the loops over a strip share: its weights segment by segment, and the sums of its outputs.
#pragma once

#include "kernels/cpu/formats.h"
#include "kernels/cpu/strip.h"
#include "kernels/ref/chains.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace simd {

/// Vectors of rows of a strip.
constexpr int kVectors = static_cast<int>(kStripRows) / kWidth;

/// Output sums and, for the integer chain, those of the current segment.
struct Sums {
  alignas(64) float y[kStripColumns][kStripRows];
  alignas(64) float segment[kStripColumns][kStripRows];

  /// -0 is the number that changes nothing when added to, so y = seg0 and y = y + seg are the same operation.
  void clear(int columns) {
    for (int c = 0; c < columns; ++c) {
      for (int v = 0; v < kVectors; ++v) store(y[c] + v * kWidth, splat(-0.0f));
    }
  }
  void write(const StripWork& work) const {
    for (int c = 0; c < work.columns; ++c) write_sums(y[c], work.strip.width, work.scale, work.y[c]);
  }

  /// A scale of 1 changes no bit.
  static void write_sums(const float* sums, int32_t width, float scale, float* y) {
    for_lanes(width, [&](int64_t i, auto lanes) { store(y + i, load(sums + i, lanes) * splat(scale), lanes); });
  }
};

/// Segments of a strip as if it had 32 rows: where they lie, or for a shorter strip spread into a buffer whose other rows
/// are whatever was there (their outputs are not written). A segment has at most kBuffer bytes.
template <size_t kBuffer>
class RawSegments {
 public:
  RawSegments(format::TensorType type, const Strip& strip, int64_t block, int64_t bytes)
      : strip_(strip), block_(block), pieces_(pieces_of(type, static_cast<int32_t>(bytes))) {
    if (strip_.width % kStripRows != 0) __builtin_memset(buffer_, 0, sizeof buffer_);
  }
  /// Where the strip has element k0.
  EVROS_INLINE const std::byte* from(int64_t k0) const {
    return strip_.data + k0 / block_ * pieces_.bytes * strip_.width;
  }
  /// The blocks of elements [k0, k0 + n).
  EVROS_INLINE const std::byte* at(int64_t k0, int64_t n) {
    const std::byte* in = from(k0);
    if (strip_.width == kStripRows) return in;
    spread(in, n / block_);
    return buffer_;
  }

 private:
  void spread(const std::byte* in, int64_t blocks) {
    const auto width = static_cast<size_t>(strip_.width);
    const auto piece = static_cast<size_t>(pieces_.short_bytes);
    std::byte* out = buffer_;
    for (int64_t b = 0; b < blocks; ++b) {
      __builtin_memcpy(out, in, piece * width);
      in += piece * width;
      out += piece * kStripRows;
      for (int32_t i = 0; i < pieces_.words; ++i, in += 4 * width, out += 4 * kStripRows) {
        __builtin_memcpy(out, in, 4 * width);
      }
    }
  }

  Strip strip_;
  int64_t block_;
  Pieces pieces_;
  alignas(64) std::byte buffer_[kBuffer];
};

template <typename Format>
constexpr size_t segment_bytes() {
  return static_cast<size_t>(kSegment / Format::kBlock * Format::kBytes * kStripRows);
}

/// What a loop over Format reads.
template <typename Format>
class Segments : public RawSegments<segment_bytes<Format>()> {
 public:
  Segments(format::TensorType type, const Strip& strip)
      : RawSegments<segment_bytes<Format>()>(type, strip, Format::kBlock, Format::kBytes) {}
  /// Asks for the memory that lies ahead of group g of the segment at `blocks`.
  static EVROS_INLINE void prefetch(const std::byte* blocks, int64_t g) {
    constexpr int64_t kGroupBytes = Format::kBytes * kStripRows / (Format::kBlock / 32);
    ask_ahead<kGroupBytes>(blocks + g * kGroupBytes);
  }
};

template <int kElements, bool kMinimum>
class Segments<Decoded<kElements, kMinimum>> {
 public:
  Segments(format::TensorType type, const Strip& strip)
      : decoder_(decoder_of(type)), raw_(type, strip, decoder_.block, decoder_.bytes) {}
  EVROS_INLINE const std::byte* at(int64_t k0, int64_t n) {
    decoder_.decode(raw_.at(k0, n), n, buffer_);
    return buffer_;
  }
  EVROS_INLINE const std::byte* from(int64_t k0) const { return raw_.from(k0); }
  static EVROS_INLINE void prefetch(const std::byte*, int64_t) {}  // decoding does

 private:
  Decoder decoder_;
  RawSegments<segment_bytes<Q8_0>()> raw_;  // the largest blocks there are
  alignas(64) std::byte buffer_[segment_bytes<Decoded<kElements, kMinimum>>()];
};

}  // namespace simd
}  // namespace EVROS_ISA
}  // namespace evros::kernels
