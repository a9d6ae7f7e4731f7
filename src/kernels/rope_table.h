// Rotary phases as exact 64-bit fixed-point turns (docs/numerics.md, Environment): frequencies are theta^(-2i/dims)/(2 pi) in
// units of 2^-64 turn, found by integer arithmetic alone; a position's phase is position * frequency mod 2^64, so it wraps
// exactly; sine and cosine are our own polynomial in double, rounded once. The same bits on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace evros::kernels {

class RopeTable {
 public:
  /// dims even; theta finite and > 1. (theta is used as the exact double.)
  RopeTable(int dims, double theta);
  int dims() const { return static_cast<int>(turns_.size()) * 2; }
  /// out[i] = {cos, sin} for pair i; out.size() == dims().
  void row(int64_t position, std::span<float> out) const;

 private:
  std::vector<uint64_t> turns_;  // [dims/2] frequency in 2^-64 turns per position
};

}  // namespace evros::kernels
