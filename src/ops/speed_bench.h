// `evros bench`: tokens a second by context length, beside what the machine can do at most, measured in the same run.
//
// At each context length the last tokens of a prompt are prefilled and some more decoded, on a fork of a sequence that
// holds what comes before; after that the fork is dropped, so that every round does the same work. Rounds go through all
// lengths in turn, each with its own reading of the memory's speed; medians count. Texts are drawn evenly from the
// vocabulary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "engine/engine.h"
#include "io/io.h"
#include "ops/machine_limits.h"
#include "ops/stage_bench.h"

namespace evros::ops {

struct SpeedOptions {
  std::vector<int64_t> contexts;  // tokens, ascending; see choose_contexts()
  int64_t prompt = 512;           // tokens of a timed prefill, or the whole context when that is shorter
  int64_t decode = 32;            // tokens decoded after it
  int rounds = 5;
  int32_t sequences = 0;  // above 1: that many texts are also decoded together
  double budget_seconds = 300;
  uint64_t copy_bytes = uint64_t{1} << 30;  // of each copy that measures a device's own memory
  uint64_t buffer_bytes = 0;                // for measuring the speed of memory; fit_contexts() sets it
};

/// The contexts to measure: `wanted`, or 512, 2048, 8192, ... when it is empty, ascending, each once, none beyond `most`
/// less the decoded tokens. Wanted ones that are longer are left out, with a sentence for each in `left_out`; if all are, the
/// longest that is not takes their place.
std::vector<int64_t> choose_contexts(std::vector<int64_t> wanted, int64_t most, int64_t decode,
                                     std::vector<std::string>& left_out);

/// What the engine needs beside the caller's options: a sequence for each context and each text.
engine::EngineOptions speed_options(engine::EngineOptions options, const SpeedOptions& speed);

/// Replaces speed.contexts by those that will be measured: choose_contexts() up to options.context, or up to what the
/// model was made for (kDefaultContext when nothing was asked for), without the longest ones that do not fit in memory (the
/// shortest stays); and sets speed.buffer_bytes. Returns a sentence for each of these. Reads the model's header.
Result<std::vector<std::string>> fit_contexts(io::Io& io, const std::string& path, const engine::EngineOptions& options,
                                              SpeedOptions& speed);

/// One number a round.
using Rounds = std::vector<double>;
double median(Rounds rounds);

struct SpeedPoint {
  int64_t context = 0, prompt = 0;
  Rounds prefill, decode;  // tokens a second
  Rounds memory_share;     // of decoding: bytes of a token x tokens a second / bytes that are read a second, same round
  Rounds integer_share;    // of prefill: operations of a token x tokens a second / 8-bit operations a second
  TokenBytes bytes;        // of a decoded token, half way through
};

/// Several sequences of different texts, decoded in one chunk a token.
struct Together {
  int32_t sequences = 0;
  int64_t context = 0;  // at the end
  Rounds single;        // tokens a second of one of them alone
  Rounds all;           // of all together
  double experts = 0;   // experts that the sequences chose in a layer, all together: mean over layers and tokens
  double bytes_single = 0, bytes_union = 0;  // touched by one token alone; by one token of each

  /// How many times faster than one alone they could be if only bytes counted.
  double bound() const { return sequences * bytes_single / bytes_union; }
  double speedup() const { return median(all) / median(single); }
};

struct SpeedReport {
  struct Reading {
    double one = 0, all = 0;  // bytes a second, with one thread and with all
  };
  Reading before, after;
  Rounds reading;         // with all threads, before each round
  double int8_rate = 0;   // operations a second, all threads
  double operations = 0;  // of a prefilled token
  uint64_t buffer_bytes = 0, cache_bytes = 0;
  bool beyond_cache = false;
  bool own_memory =
      false;  // of the device: the readings are twice the bytes that it copies a second, int8_rate is unknown
  int threads = 0, rounds = 0;
  std::vector<SpeedPoint> points;
  std::optional<Together> together;
  std::vector<std::string> left_out;  // sentences: what did not fit the budget

  /// Why the run does not count (kQuietRatio); empty when it does.
  std::string why_not() const;
};

/// The table as a picture: an SVG document with a curve of decoding, the limit that memory sets it, and one of prefill.
std::string speed_plot(const SpeedReport& report, const std::string& title);

/// Runs it. The engine was loaded with speed_options(). `progress` counts rounds. Sessions are closed again.
Result<SpeedReport> bench_speed(engine::Engine& engine, io::Io& io, const SpeedOptions& options,
                                const Progress& progress);

}  // namespace evros::ops
