// A file of the real model's widths with random weights: as much work and as many bytes a token as the real thing at
// fewer layers, experts and tokens, on which speed can be measured without anybody's weights.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "format/hyper_params.h"
#include "io/io.h"
#include "ops/synth.h"

namespace evros::ops {

struct RandomOptions {
  int32_t layers = 8;               // at least 2: the second has the n-gram embedding; every fourth is a full one
  int32_t experts = 64;             // at least 10, of which each token uses 10
  int32_t vocab = 32768;            // at least kSynthLeastVocab
  uint64_t table_rows = 1'000'000;  // of the n-gram table, at least 1024
  /// Any type that Evros reads for the matrices, Q8_0 for those whose rows are no whole number of its blocks, with a quantised table
  /// always in Q4_0. Of types that it does not write, blocks are random bytes with scales of the right size. Or "mix": the types of published_type().
  std::string type = "q8_0";
  uint64_t seed = 1;
  int threads = 0;  // 0: one per core
  /// Set by anybody, it ends the work after the piece in hand, with Code::cancelled. Null: nobody does.
  const std::atomic<bool>* stop = nullptr;
};

/// What RandomOptions::type may be, in small letters.
std::vector<std::string> random_types();

/// The hyper-parameters: those of real_shape() but for what the options say. The heads of the n-gram table are the 16
/// largest primes up to table_rows / 16.
format::HyperParams random_shape(const RandomOptions& options);

/// Writes the model as `to`, or `to`.gguf; a split set above kSynthFileBytes. The bytes are a function of the options
/// alone, not of the threads. Matrices are drawn from a normal distribution of variance 1 / ne0, so that what goes in
/// comes out at its own size; norms near 1. A tensor is put together from 4,096 encoded pieces of its type and law, each
/// place drawn by itself: that costs little more than writing. Memory: some megabytes a thread. As long as it runs,
/// nothing stands under the final name; on failure nothing is left.
///
/// Code::invalid_argument when an option is below its least; Code::io, before anything is written, when the disk has no room.
Result<SynthSummary> synth_random(io::Io& io, const std::string& to, const RandomOptions& options,
                                  const Progress& progress);

}  // namespace evros::ops
