// Formats that are written once, for one row and for vectors of rows. Such a format has
//
//   template <typename Block, typename Group> static void group(const Block& b, int64_t g, Group& out);
//
// which takes group g of 32 elements out of a block: out.word[8] (word w holds elements 4w ... 4w + 3 as unsigned bytes: the
// weight integer plus kOffset, at most kLargest), out.scale[32 / kGroup] and, where kMinimum, out.minimum[32 / kGroup]. A
// Block gives the pieces of a block (kernels/layout.h) in its own kind of numbers: its words, and the short piece in front or
// behind. Words and numbers have &, |, ^, +, - and *, and the functions below. RowBlock is one row's block where a file has
// it; src/kernels/cpu/formats.h reads a vector of rows the same way.
//
// Nothing here calls the host, and tables are reached through codebooks.h alone: a device compiles it as it stands.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codec/float16.h"
#include "kernels/math.h"

namespace evros::kernels {
inline namespace EVROS_ISA {

EVROS_INLINE uint32_t shift_right(uint32_t a, int n) { return a >> n; }
EVROS_INLINE uint32_t shift_left(uint32_t a, int n) { return a << n; }
/// The half precision number in the low 16 bits.
EVROS_INLINE float low_f16(uint32_t a) { return f16_to_f32(static_cast<uint16_t>(a)); }
/// Of a signed word.
EVROS_INLINE float to_float(uint32_t a) { return static_cast<float>(static_cast<int32_t>(a)); }
EVROS_INLINE float as_floats(uint32_t a) { return float_from_bits(a); }
EVROS_INLINE float negate(float a) { return -a; }
/// The low four bits of a, one to a byte, each worth 1 << kShift; what stands above them does not count.
template <int kShift>
EVROS_INLINE uint32_t spread_bits(uint32_t a) {
  return ((a & 15u) * 0x00204081u & 0x01010101u) << kShift;  // bit i lands at 8 i, and no two sums meet
}

/// Neither infinite nor NaN, for a half in the low 16 bits.
EVROS_INLINE bool is_finite_half(uint32_t bits) { return (bits & 0x7c00u) != 0x7c00u; }

/// Two halves in one word, a scale and a minimum or an addend.
EVROS_INLINE bool are_finite_halves(uint32_t word) { return is_finite_half(word) && is_finite_half(word >> 16); }

/// Unaligned little-endian 32 bits.
EVROS_INLINE uint32_t load_u32(const std::byte* bytes) {
  uint32_t value;
  __builtin_memcpy(&value, bytes, sizeof value);
  return value;
}

/// One block of one row, in the file's order.
template <typename Format>
struct RowBlock {
  using Word = uint32_t;
  const std::byte* bytes;

  EVROS_INLINE uint32_t word(int64_t i) const {
    return load_u32(bytes + (Format::kShortAt == 0 ? Format::kBytes % 4 : 0) + 4 * i);
  }
  /// The short piece as a half precision number, as its bits, and as one byte.
  EVROS_INLINE float half() const { return f16_to_f32(load_u16(bytes + Format::kShortAt)); }
  EVROS_INLINE uint32_t half_bits() const { return load_u16(bytes + Format::kShortAt); }
  EVROS_INLINE uint32_t byte() const { return static_cast<uint32_t>(bytes[Format::kShortAt]); }

  static EVROS_INLINE uint32_t all(uint32_t x) { return x; }
  static EVROS_INLINE float number(float x) { return x; }
  static EVROS_INLINE uint32_t look_up(const uint32_t* table, uint32_t index) { return table[index]; }
  /// Words 2 * index and 2 * index + 1 of the table.
  static EVROS_INLINE void look_up_two(const uint32_t* table, uint32_t index, uint32_t& first, uint32_t& second) {
    first = table[2 * index];
    second = table[2 * index + 1];
  }
  /// Every byte, below 16, replaced by the table's.
  static EVROS_INLINE uint32_t look_up_bytes(const uint8_t* table, uint32_t a) {
    return static_cast<uint32_t>(table[a & 15u]) | static_cast<uint32_t>(table[(a >> 8) & 15u]) << 8 |
           static_cast<uint32_t>(table[(a >> 16) & 15u]) << 16 | static_cast<uint32_t>(table[a >> 24]) << 24;
  }
};

template <typename Format>
struct RowGroup {
  static constexpr int kScales = 32 / Format::kGroup;
  uint32_t word[8];
  float scale[kScales];
  float minimum[kScales];
};

/// What codec.h asks of a codec, from Format::group().
template <typename Format>
struct GroupCodec {
  static constexpr bool kQuantised = true;
  static constexpr int kShortAt = 0;  // of the block's short piece, where it has one

  /// The floats, q * scale - minimum: in this form all formats have PyPI gguf's order of operations, or one with its bits.
  static EVROS_INLINE void decode(const std::byte* block, float* out) {
    for (int64_t g = 0; g < Format::kBlock / 32; ++g) {
      RowGroup<Format> group;
      Format::group(RowBlock<Format>{block}, g, group);
      for (int i = 0; i < 32; ++i) {
        float value = group.scale[i / Format::kGroup] * static_cast<float>(integer(group, i));
        if constexpr (Format::kMinimum) value -= group.minimum[i / Format::kGroup];
        out[g * 32 + i] = value;
      }
    }
  }

  /// Weight integers, the scale sw and, where kMinimum, the minimum mw of each group, as the integer chain takes them.
  static EVROS_INLINE void decode_groups(const std::byte* block, int8_t* q, float* scale, float* minimum = nullptr) {
    constexpr int64_t kScales = RowGroup<Format>::kScales;
    for (int64_t g = 0; g < Format::kBlock / 32; ++g) {
      RowGroup<Format> group;
      Format::group(RowBlock<Format>{block}, g, group);
      for (int i = 0; i < 32; ++i) q[g * 32 + i] = static_cast<int8_t>(integer(group, i));
      for (int64_t s = 0; s < kScales; ++s) {
        scale[g * kScales + s] = group.scale[s];
        if constexpr (Format::kMinimum) minimum[g * kScales + s] = group.minimum[s];
      }
    }
  }

  /// The scale in the short piece is neither infinite nor NaN. Formats that have theirs elsewhere say so themselves.
  static EVROS_INLINE bool finite(const std::byte* block) {
    static_assert(Format::kBytes % 4 == 2);
    return is_finite_half(RowBlock<Format>{block}.half_bits());
  }

 private:
  static EVROS_INLINE int32_t integer(const RowGroup<Format>& group, int i) {
    return static_cast<int32_t>((group.word[i / 4] >> (i % 4 * 8)) & 255u) - Format::kOffset;
  }
};

// ---- what several formats do with words ---------------------------------------------------------------------------------

template <typename Word>
EVROS_INLINE Word bits_at(Word a, int from, Word mask) {
  return shift_right(a, from) & mask;
}

/// Four words of nibble pairs from word `first` on: low nibbles are the first 16 elements, high nibbles the next.
template <typename Block, typename Group>
EVROS_INLINE void take_nibbles(const Block& b, int64_t first, Group& out) {
  for (int w = 0; w < 4; ++w) {
    const auto both = b.word(first + w);
    out.word[w] = both & Block::all(0x0f0f0f0fu);
    out.word[w + 4] = shift_right(both, 4) & Block::all(0x0f0f0f0fu);
  }
}

/// The same, each nibble replaced by the byte that it stands for.
template <typename Block, typename Group>
EVROS_INLINE void take_nibbles_of(const uint8_t* table, const Block& b, int64_t first, Group& out) {
  take_nibbles(b, first, out);
  for (auto& word : out.word) word = Block::look_up_bytes(table, word);
}

/// Adds bit i of `high` to element i, worth 16.
template <typename Word, typename Group>
EVROS_INLINE void add_fifth_bits(Word high, Group& out) {
  for (int w = 0; w < 8; ++w) {
    out.word[w] = out.word[w] | spread_bits<4>(shift_right(high, 4 * w));
  }
}

/// Bit pairs as the K formats and TQ2_0 pack them: eight words for each half of 128 elements, one pair of every byte a group.
template <typename Block>
EVROS_INLINE auto bit_pairs(const Block& b, int64_t first, int64_t g, int w) {
  return bits_at(b.word(first + g / 4 * 8 + w), static_cast<int>(g % 4) * 2, Block::all(0x03030303u));
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
