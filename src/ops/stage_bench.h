// Where the time of a token goes: each stage of the forward pass, and what the transaction around it costs (begin, inputs,
// finite checks, publication): `evros bench --stages`. It compares parts of one run with each other and claims nothing
// about machines. Also what a token costs by count, which speed_bench.h compares with what a machine can do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "io/io.h"
#include "ops/kernel_times.h"

namespace evros::ops {

struct StageTime {
  std::string name;
  uint64_t calls = 0, ns = 0;
};

/// Sums over all chunks of one phase.
struct PhaseTimes {
  uint64_t tokens = 0, chunks = 0;
  uint64_t total_ns = 0;
  uint64_t begin_ns = 0;    // begin, and the pass inputs made on the host (rope rows, table rows)
  uint64_t publish_ns = 0;  // status words, publication, control digest
  uint64_t finite_ns = 0;   // the finite checks alone, measured by running them once more; also part of `stages`
  std::vector<StageTime> stages;
};

/// Bytes that one decoded token moves, by count: every tensor touched once, the state read and written.
struct TokenBytes {
  uint64_t weights = 0;      // of the matrices that one token multiplies with, and its rows of the tables
  uint64_t experts = 0;      // the part of it in the experts that the router chose
  uint64_t rows = 0;         // the part of it in rows of the embedding and the n-gram table
  uint64_t state = 0;        // public bank read and private bank written, K/V and index rows at the context
  uint64_t transaction = 0;  // what an engine that works in place would not move: copies into the bank, control records
};

struct StageBench {
  PhaseTimes prefill, decode;
  std::vector<KernelTime> kernels;  // of as many decoded tokens more, when somebody timed them
  TokenBytes bytes;
};

/// Prefills `prompt` tokens of a fixed pseudo-random text, then decodes `decode` tokens, and as many again with `timed`, the
/// engine's device, measuring (null: not). The session is closed again.
Result<StageBench> bench_stages(engine::Engine& engine, io::Io& clock, int64_t prompt, int64_t decode,
                                TimedDevice* timed = nullptr);

/// Bytes of one token at a context of `context` tokens.
TokenBytes count_bytes(const engine::Engine& engine, int64_t context);

/// Bytes of one expert of each layer, all its matrices.
std::vector<uint64_t> expert_bytes(const engine::Engine& engine);

/// Multiplications and additions of one token in the matrices of all layers: not in the head, which only the last token
/// of a prompt needs.
double token_operations(const engine::Engine& engine);

/// `n` ids that are drawn evenly from the vocabulary; other texts for other `which`.
std::vector<int32_t> bench_text(const format::HyperParams& hyper, uint32_t which, int64_t n);

}  // namespace evros::ops
