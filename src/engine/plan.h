// The memory plan: where every byte of a model will live and what a session and its context cost, before anything is
// allocated. Engine::load follows it; inspect prints it.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "format/model_file.h"
#include "model/scratch.h"
#include "state/store.h"

namespace evros::engine {

struct EngineOptions;

struct Plan {
  int64_t context = 0;  // longest session, tokens
  int64_t context_of_model = 0;
  int32_t sessions = 1;
  state::Limits limits;  // slots (one more than sessions), banks, pages
  model::PassLimits pass;
  uint64_t weight_bytes = 0;        // resident
  uint64_t table_bytes = 0;         // n-gram table in the file
  uint64_t table_memory_bytes = 0;  // of it in memory: frames, or all when resident
  uint64_t bank_bytes = 0;          // one bank: what one more session costs before its first token
  uint64_t page_bytes = 0;
  int32_t page_tokens = 0;
  uint64_t scratch_bytes = 0;

  uint64_t banks_bytes() const { return bank_bytes * static_cast<uint64_t>(limits.banks); }
  uint64_t pages_bytes() const { return page_bytes * static_cast<uint64_t>(limits.pages); }
  uint64_t total_bytes() const {
    return weight_bytes + table_memory_bytes + banks_bytes() + pages_bytes() + scratch_bytes;
  }
  /// What 1024 more tokens of one session cost.
  uint64_t bytes_per_1k_tokens() const { return page_bytes * 1024 / static_cast<uint64_t>(page_tokens); }
};

/// The plan for these options, or what is wrong with them (a context beyond the model's, a type that cannot run, ...).
Result<Plan> make_plan(const format::ModelFile& file, const EngineOptions& options);

}  // namespace evros::engine
