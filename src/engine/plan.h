// The memory plan: where every byte of a model will live, what a session and its context cost and what there is, before
// anything is allocated. Engine::load follows it or refuses; inspect prints it.
//
// What it promises: a process that loads a model by a plan that fits and uses it to its limits (every session filled, every
// chunk full) stays below total_bytes(). The device's memory for pages is taken at load and touched as contexts grow, so
// that less is resident at first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/model_file.h"
#include "io/memory.h"
#include "model/scratch.h"
#include "state/store.h"

namespace evros::engine {

struct EngineOptions;

/// Where a group of tensors lives once a model is loaded.
enum class Place : uint8_t {
  memory,
  frames,  // on disk; memory_bytes hold what was read last
  disk,    // on disk alone: nothing reads it
};
const char* place_name(Place place);

/// Tensors of one purpose.
struct PlanGroup {
  std::string name;  // "experts"
  Place place = Place::disk;
  uint64_t stored_bytes = 0;  // in the file
  uint64_t memory_bytes = 0;
};

/// Why the context is as long as it is.
enum class ContextChoice : uint8_t {
  asked,
  model,   // not asked for: as long as the model was made for
  usual,   // not asked for: kDefaultContext, or what pool_tokens hold
  memory,  // not asked for: the longest that fits
};

struct Plan {
  std::string model;    // path of the file
  int64_t context = 0;  // longest session, tokens
  int64_t context_of_model = 0;
  int64_t context_unless_memory = 0;  // what it would be if memory were no question
  uint64_t bytes_unless_memory = 0;   // and what all would take then
  ContextChoice context_choice = ContextChoice::asked;
  int64_t largest_context = 0;  // that fits with the other options as they are, at most the model's; 0: none does
  int32_t sessions = 1;
  state::Limits limits;  // slots (one more than sessions), banks, pages
  model::PassLimits pass;

  std::vector<PlanGroup> groups;    // every tensor of the file is in one of them; empty groups are left out
  uint64_t weight_bytes = 0;        // of all groups but the table, in memory
  uint64_t table_bytes = 0;         // n-gram table in the file
  uint64_t table_memory_bytes = 0;  // of it in memory: frames and what finds them, or all when resident
  uint64_t bank_bytes = 0;          // one bank: what one more session costs before its first token
  uint64_t page_bytes = 0;
  int32_t page_tokens = 0;
  uint64_t scratch_bytes = 0;
  uint64_t tables_bytes = 0;   // page tables, token ids, digests and the first bank's image, on the host
  uint64_t buffer_bytes = 0;   // the most that loading, or a chunk with its replies, takes on the host for a while
  uint64_t program_bytes = 0;  // resident when the plan was made, the vocabulary and the threads' stacks
  uint64_t caller_bytes = 0;   // EngineOptions::caller_bytes
  uint64_t mapped_bytes = 0;   // stacks as limits on address space count them; not in total_bytes()

  /// Free bytes of a device with memory of its own, where weights, banks, pages and scratch then lie; none: all is the host's.
  std::optional<uint64_t> device_free;
  io::MemoryMeasure measured;
  bool budget_asked = false;   // EngineOptions::memory_bytes was given
  uint64_t usable_bytes = 0;   // that, or the smallest limit that was measured
  std::string usable_because;  // name of that limit
  std::string advice;          // when it does not fit: what to ask for instead, or what the least is

  uint64_t banks_bytes() const { return bank_bytes * static_cast<uint64_t>(limits.banks); }
  uint64_t pages_bytes() const { return page_bytes * static_cast<uint64_t>(limits.pages); }
  uint64_t total_bytes() const {
    return weight_bytes + table_memory_bytes + banks_bytes() + pages_bytes() + scratch_bytes + tables_bytes +
           buffer_bytes + program_bytes + caller_bytes;
  }
  /// What lies on the device, if it has memory of its own, and what is left for the host.
  uint64_t device_bytes() const {
    return device_free ? weight_bytes + banks_bytes() + pages_bytes() + scratch_bytes : 0;
  }
  uint64_t host_bytes() const { return total_bytes() - device_bytes(); }
  bool fits() const { return host_bytes() <= usable_bytes && device_bytes() <= device_free.value_or(0); }
  /// What 1024 more tokens of one session cost.
  uint64_t bytes_per_1k_tokens() const { return page_bytes * 1024 / static_cast<uint64_t>(page_tokens); }
  /// What one more session costs, its context filled.
  uint64_t bytes_per_session() const {
    return bank_bytes + page_bytes * static_cast<uint64_t>((context + page_tokens - 1) / page_tokens + 1);
  }
};

/// The plan for these options, which need not fit (fits()), or what is wrong with them (a context beyond the model's, a type
/// that cannot run, ...). `kernel` has the files that say what memory there is and what this process holds. `device_free`: as in
/// Plan, device::Device::free_memory().
Result<Plan> make_plan(const format::ModelFile& file, const EngineOptions& options, io::Io& kernel = io::real_io(),
                       std::optional<uint64_t> device_free = std::nullopt);

/// What EngineOptions::table must set aside at least: the frames of all rows that a chunk of options.chunk tokens may read, which
/// it holds at once. 0 without a table and with a resident one.
uint64_t table_memory_of_chunk(const format::ModelFile& file, const EngineOptions& options);

/// Ok when the plan fits; else Code::out_of_memory: what is needed, by group, what there is and why, and what to change.
/// Where both the device's memory and the host's are too small, it speaks of the device's.
Status check_fits(const Plan& plan);

}  // namespace evros::engine
