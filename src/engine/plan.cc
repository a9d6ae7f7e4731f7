#include "engine/plan.h"

#include <algorithm>
#include <limits>

#include "base/str.h"
#include "device/pool.h"
#include "engine/engine.h"
#include "engine/weight_loader.h"

namespace evros::engine {
namespace {

constexpr const char* kTableGroup = "n-gram table";

constexpr uint64_t kStackTouched = 256u << 10;  // of a thread, its allocator's share included
constexpr uint64_t kStackMapped = 8u << 20;     // of a thread, as address space
constexpr uint64_t kOtherThreads = 4;
constexpr uint64_t kSlack = 4u << 20;  // chat template, small lists, what an allocator keeps
constexpr uint64_t kFrameEntry = 48;   // what finds a frame of the table
constexpr uint64_t kTokenEntry = 140, kMergeEntry = 40, kJsonFactor = 11;  // of the tokenizer while it is made

// The purpose of a tensor, by its name (docs/model.md 2).
const char* group_of(const format::HyperParams& h, std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (name == kTableName) return kTableGroup;
  if (name == "token_embd.weight") return "embedding";
  if (name.starts_with("output")) return "head";
  if (h.mtp_layers > 0 && name.starts_with(cat("blk.", h.layers, '.'))) return "draft head";
  if (has(".ple_")) return "n-gram layers";
  if (has(".hc_")) return "hyper-connections";
  if (has("_shexp")) return "shared experts";
  if (has(".ffn_")) return "experts";
  if (has(".ssm_") || has(".attn_qkv") || has(".attn_gate")) return "linear layers";
  return has(".attn_") || has(".indexer.") ? "attention" : "others";
}

// Adds up what bind() would load.
class CountingSource : public model::TensorSource {
 public:
  explicit CountingSource(const format::ModelFile& file) : file_(file) {
    for (const char* name : {"embedding", "attention", "linear layers", "experts", "shared experts",
                             "hyper-connections", "n-gram layers", kTableGroup, "head", "draft head", "others"}) {
      groups_.push_back({name, Place::disk, 0, 0});
    }
    for (const format::Tensor& tensor : file.tensors()) group(tensor).stored_bytes += tensor.bytes();
  }
  Result<model::Matrix> matrix(const std::string& name) override {
    EVROS_ASSIGN(const format::Tensor* tensor, find_tensor(file_, name));
    count(*tensor, weight_room(tensor->bytes()));
    buffers = std::max(buffers, matrix_buffer_bytes(*tensor));
    return matrix_of(*tensor, nullptr);
  }
  Result<const float*> vector(const std::string& name) override {
    EVROS_ASSIGN(const format::Tensor* tensor, find_tensor(file_, name));
    count(*tensor, weight_room(tensor->elements() * sizeof(float)));
    buffers = std::max(buffers, vector_buffer_bytes(*tensor));
    return static_cast<const float*>(nullptr);
  }
  bool has(const std::string& name) const override { return file_.find(name) != nullptr; }
  std::vector<PlanGroup> groups() && {
    std::erase_if(groups_, [](const PlanGroup& g) { return g.stored_bytes == 0; });
    return std::move(groups_);
  }
  uint64_t bytes = 0;
  uint64_t buffers = 0;  // the most that loading one of them takes beside it

 private:
  PlanGroup& group(const format::Tensor& tensor) {
    const std::string_view name = group_of(file_.hyper(), tensor.name);
    return *std::find_if(groups_.begin(), groups_.end(), [&](const PlanGroup& g) { return g.name == name; });
  }
  void count(const format::Tensor& tensor, uint64_t in_memory) {
    group(tensor).memory_bytes += in_memory;
    group(tensor).place = Place::memory;
    bytes += in_memory;
  }

  const format::ModelFile& file_;
  std::vector<PlanGroup> groups_;
};

Status check_options(const EngineOptions& options) {
  const auto at_least = [](const char* name, int64_t value, int64_t least) -> Status {
    if (value >= least) return {};
    return Error{Code::invalid_argument, cat(name, " is ", value, "; it must be at least ", least)};
  };
  EVROS_TRY(at_least("sessions", options.sessions, 1));
  EVROS_TRY(at_least("checkpoints", options.checkpoints, 0));
  EVROS_TRY(at_least("batch", options.batch, 1));
  EVROS_TRY(at_least("context", options.context, 0));
  EVROS_TRY(at_least("pool_tokens", options.pool_tokens, 0));
  EVROS_TRY(at_least("pool_contexts", options.pool_contexts, 0));
  EVROS_TRY(at_least("threads", options.threads, 0));
  return at_least("chunk", options.chunk, options.batch);
}

Status check_context(const format::ModelFile& file, int64_t asked) {
  const int64_t most = file.hyper().context_length;
  if (asked <= most) return {};
  return Error{Code::invalid_argument,
               cat("a context of ", asked, " tokens was asked for; ", file.path(), " was made for at most ", most)};
}

// One slot for each session and the spare one, in which histories are made that take several chunks. Banks: one for
// each slot, each sequence of a chunk and each checkpoint, and the origin's. Pages for every slot at its longest, or for
// pool_tokens, which are at least one whole context; one more for each slot, whose page at the frontier may be copied before
// it is written, and one for each checkpoint likewise.
Result<state::Limits> state_limits(const EngineOptions& options, int32_t page_tokens, int64_t context) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t slots = int64_t{options.sessions} + 1;
  const int64_t banks = slots + options.batch + options.checkpoints + 1;
  const auto pages_of = [&](int64_t tokens) { return (tokens + page_tokens - 1) / page_tokens; };
  if (options.pool_tokens > 0 && options.pool_tokens < context) {
    return Error{Code::invalid_argument, cat("pool_tokens is ", options.pool_tokens,
                                             "; it must hold at least one context, ", context, " tokens")};
  }
  const int64_t pool_tokens = options.pool_tokens > 0 ? options.pool_tokens : options.pool_contexts * context;
  const int64_t pooled = pages_of(pool_tokens);
  const int64_t each = pages_of(context) + 1;
  const int64_t most = (kMost - options.checkpoints) / slots;
  if (banks > kMost || each > most || pooled / slots >= most) {
    return Error{Code::invalid_argument,
                 cat(options.sessions, " sessions of ", context, " tokens and ", options.checkpoints,
                     " checkpoints need more than ", kMost, " banks or pages of ", page_tokens, " tokens")};
  }
  state::Limits limits;
  limits.slots = static_cast<int32_t>(slots);
  limits.checkpoints = options.checkpoints;
  limits.banks = static_cast<int32_t>(banks);
  const int64_t pages = pool_tokens > 0 ? std::min(pooled + slots, each * slots) : each * slots;
  limits.pages = static_cast<int32_t>(pages + options.checkpoints);
  limits.max_tokens = context;
  return limits;
}

Status check_frames(const EngineOptions& options, const format::ModelFile& file) {
  const uint64_t needed = table_memory_of_chunk(file, options), there = options.table.memory_bytes;
  if (there >= needed) return {};
  return Error{Code::invalid_argument,
               cat("a chunk of ", options.chunk, " tokens may read ", needed / options.table.frame_bytes,
                   " frames of the n-gram table at once, ", (needed + (1 << 20) - 1) >> 20, " MiB; ", there >> 20,
                   " MiB are set aside for it")};
}

// Host memory for making a tokenizer of this vocabulary, files and copies included.
uint64_t vocabulary_bytes(const format::TextAssets& text) {
  return text.tokens.size() * kTokenEntry + text.merges.size() * kMergeEntry + text.tokenizer_json.size() * kJsonFactor;
}

// The host's part of a chunk: table rows and their places, rope rows, and the logits that replies are drawn from.
uint64_t chunk_bytes(const format::HyperParams& h, const EngineOptions& options, int64_t row_bytes) {
  const auto rows = static_cast<uint64_t>(options.chunk), vocabulary = static_cast<uint64_t>(h.vocab);
  const uint64_t of_row = static_cast<uint64_t>(h.ple_heads() * (row_bytes + 24)) + uint64_t{4} * h.rope_dims + 64;
  const uint64_t logits = (static_cast<uint64_t>(options.batch) + 2) * vocabulary * 16;
  return rows * of_row + logits + (options.all_logits ? rows * vocabulary * sizeof(float) : 0);
}

class Planner {
 public:
  static Result<Planner> create(const format::ModelFile& file, const EngineOptions& options, io::Io& kernel) {
    EVROS_TRY(check_options(options));
    EVROS_TRY(check_types(file));
    EVROS_TRY(check_context(file, options.context));
    EVROS_ASSIGN(const kernels::CacheType kv, model::parse_cache_type(options.kv));
    Planner planner(file, kv);
    CountingSource source(file);
    EVROS_TRY(model::bind(file.hyper(), options.draft_head, source));
    planner.load_buffers_ = source.buffers;
    planner.base_.weight_bytes = source.bytes;
    planner.base_.groups = std::move(source).groups();
    planner.measure(options, kernel);
    return planner;
  }

  /// The plan for this context, whether it fits or not.
  Result<Plan> plan(const EngineOptions& options, int64_t context) const {
    const format::HyperParams& h = file_.hyper();
    Plan plan = base_;
    plan.context = context;
    plan.sessions = options.sessions;
    plan.caller_bytes = options.caller_bytes;
    EVROS_ASSIGN(plan.limits, state_limits(options, plan.page_tokens, context));
    plan.pass = {options.chunk, options.batch, options.all_logits ? options.chunk : options.batch, context,
                 options.trace};
    int64_t row_bytes = 0;
    if (const format::Tensor* table = h.ple.empty() ? nullptr : file_.find(kTableName)) {
      row_bytes = static_cast<int64_t>(format::row_bytes(table->type, table->ne[0]));
      EVROS_TRY(check_frames(options, file_));
      place_table(plan, *table, options.table);
    }
    plan.scratch_bytes = model::carve_scratch(h, plan.pass, row_bytes, nullptr).bytes;
    plan.tables_bytes = state::host_bytes(state_.layout, plan.limits) + state_.layout.origin.size();
    plan.buffer_bytes = std::max(load_buffers_, chunk_bytes(h, options, row_bytes)) + kSlack;
    const auto threads = static_cast<uint64_t>(device::thread_count(options.threads));
    plan.program_bytes = plan.measured.own_bytes + vocabulary_bytes(file_.text()) + threads * kStackTouched;
    return plan;
  }

  bool fits(const EngineOptions& options, int64_t context) const {
    const auto sized = plan(options, context);
    return sized.ok() && sized->fits();
  }

  /// The longest context that fits, at most `most`; 0 when none does.
  int64_t largest(const EngineOptions& options, int64_t most) const {
    if (fits(options, most)) return most;
    const int64_t step = base_.page_tokens;
    int64_t fitting = 0, beyond = (most + step - 1) / step;  // in pages
    while (beyond - fitting > 1) {
      const int64_t middle = fitting + (beyond - fitting) / 2;
      (fits(options, middle * step) ? fitting : beyond) = middle;
    }
    return fitting * step;
  }

  int64_t longest(const EngineOptions& options) const {
    const int64_t most = file_.hyper().context_length;
    return options.pool_tokens > 0 ? std::min(most, options.pool_tokens) : most;
  }

  /// The context that goes with these options: the one that was asked for if it fits, else the longest that does; 0 when none does.
  int64_t context_for(const EngineOptions& options) const {
    if (options.context > 0) return fits(options, options.context) ? options.context : 0;
    return largest(options, longest(options));
  }

  /// What to ask for instead, each of which would do alone; or all of it together; or the least that is needed.
  std::string advice(const EngineOptions& options, const Plan& plan) const {
    std::vector<std::string> ways;
    const auto add = [&](int64_t context, std::string_view what) {
      if (context == 0) return;
      ways.push_back(options.context > 0 ? std::string(what) : cat(what, " and then a context of ", context));
    };
    if (plan.largest_context > 0) ways.push_back(cat("a context of at most ", plan.largest_context, " tokens (--ctx)"));
    EngineOptions other = options;
    other.table.resident = false;
    if (options.table.resident) add(context_for(other), "the n-gram table on disk (--ple disk)");
    add_frames(options, add);
    add_sessions(options, add);
    add_chunks(options, add);
    other = options;
    other.caller_bytes = options.caller_bytes / 2;
    if (options.caller_bytes > 0) {
      add(context_for(other), cat("at most ", human_bytes(other.caller_bytes), " for requests instead of ",
                                  human_bytes(options.caller_bytes), " (of a server: --max-body-mb, --parallel)"));
    }
    other = options;
    other.pool_tokens = options.context, other.pool_contexts = 1;
    if (options.pool_contexts > 1 || options.pool_tokens > plan.context) {
      const int64_t context = context_for(other);
      add(context, cat("fewer tokens in all sequences together, such as one context (--pool ", context, ")"));
    }
    if (ways.empty()) return least(options);
    std::string list = "it fits with " + ways[0];
    for (size_t i = 1; i < ways.size(); ++i) list += ", or with " + ways[i];
    return list;
  }

  Plan& base() { return base_; }

 private:
  Planner(const format::ModelFile& file, kernels::CacheType kv)
      : file_(file), state_(model::make_state_layout(file.hyper(), kv)) {
    base_.model = file.path();
    base_.context_of_model = file.hyper().context_length;
    base_.bank_bytes = state_.layout.bank_bytes;
    base_.page_bytes = state_.layout.page_bytes;
    base_.page_tokens = state_.layout.page_tokens;
  }

  void measure(const EngineOptions& options, io::Io& kernel) {
    base_.measured = io::measure_memory(kernel);
    // The pools of the device and of the loader, and a server's.
    const uint64_t threads = 2 * static_cast<uint64_t>(device::thread_count(options.threads)) + kOtherThreads;
    base_.mapped_bytes = (threads - std::min(threads, base_.measured.threads)) * kStackMapped;
    base_.budget_asked = options.memory_bytes > 0;
    base_.usable_bytes = base_.budget_asked ? options.memory_bytes : std::numeric_limits<uint64_t>::max();
    base_.usable_because = base_.budget_asked ? "as asked" : "no limit is known";
    const io::MemoryLimit* limit = base_.measured.smallest(base_.mapped_bytes);
    if (base_.budget_asked || limit == nullptr) return;
    base_.usable_bytes = base_.measured.left(*limit, base_.mapped_bytes);
    base_.usable_because = limit->name;
  }

  static void place_table(Plan& plan, const format::Tensor& table, const pages::RowStoreOptions& options) {
    plan.table_bytes = table.bytes();
    plan.table_memory_bytes = table.bytes();
    if (!options.resident) {
      const uint64_t memory = std::min(options.memory_bytes, table.bytes());
      plan.table_memory_bytes = memory + memory / std::max<uint32_t>(options.frame_bytes, 1) * kFrameEntry;
    }
    for (PlanGroup& group : plan.groups) {
      if (group.name != kTableGroup) continue;
      group.place = options.resident ? Place::memory : Place::frames;
      group.memory_bytes = plan.table_memory_bytes;
    }
  }

  /// The table in as few frames as a chunk needs.
  template <typename Add>
  void add_frames(const EngineOptions& options, const Add& add) const {
    EngineOptions other = options;
    const uint64_t mib = (table_memory_of_chunk(file_, options) + (1u << 20) - 1) >> 20;
    other.table.memory_bytes = std::max<uint64_t>(mib, 1) << 20;
    if (options.table.resident || other.table.memory_bytes >= options.table.memory_bytes) return;
    add(context_for(other),
        cat("less memory for the n-gram table (--ple-memory-mb ", other.table.memory_bytes >> 20, ")"));
  }

  /// As many sessions as fit; no more run at once than there are.
  template <typename Add>
  void add_sessions(const EngineOptions& options, const Add& add) const {
    EngineOptions other = options;
    for (other.sessions = options.sessions - 1; other.sessions > 0; --other.sessions) {
      other.batch = std::min(options.batch, other.sessions);
      other.pool_contexts = std::min(options.pool_contexts, other.batch);
      const int64_t context = context_for(other);
      if (context == 0) continue;
      return add(context, cat(other.sessions, other.sessions == 1 ? " session" : " sessions",
                              options.batch > 1 ? " (of a server: --parallel and --cached together)" : ""));
    }
  }

  /// The largest chunk that leaves a context of some use, or the longest context.
  template <typename Add>
  void add_chunks(const EngineOptions& options, const Add& add) const {
    constexpr int64_t kUseful = 1024;
    EngineOptions other = options;
    int64_t best = 0;
    int32_t chunk = 0;
    for (other.chunk = options.chunk / 2; other.chunk >= options.batch && best < kUseful; other.chunk /= 2) {
      const int64_t context = context_for(other);
      if (context > best) best = context, chunk = other.chunk;
    }
    add(best, cat("chunks of ", chunk, chunk == 1 ? " token (--chunk)" : " tokens (--chunk)"));
  }

  /// Nothing alone is enough: everything at its smallest, if that is.
  std::string least(EngineOptions options) const {
    options.table.resident = false;
    options.sessions = 1, options.checkpoints = 0, options.chunk = options.batch = 1;
    options.pool_tokens = options.pool_contexts = 0;
    options.context = 0;
    options.table.memory_bytes =
        std::min(options.table.memory_bytes, ((table_memory_of_chunk(file_, options) >> 20) + 1) << 20);
    if (const int64_t context = context_for(options); context > 0) {
      return cat(
          "nothing is enough alone; it fits with one session (of a server: --parallel 1 --cached 0), one token at a "
          "time "
          "(--chunk 1), the n-gram table on disk in ",
          options.table.memory_bytes >> 20, " MiB (--ple disk, --ple-memory-mb) and a context of ", context,
          " tokens (--ctx)");
    }
    const auto sized = plan(options, std::min<int64_t>(base_.page_tokens, base_.context_of_model));
    if (!sized.ok()) return sized.error().message;
    return cat("even one session of ", sized->context,
               " tokens, one token at a time and the n-gram table on disk, needs ",
               human_bytes(sized->device_free ? sized->device_bytes() : sized->total_bytes()));
  }

  const format::ModelFile& file_;
  model::StateLayout state_;
  Plan base_;  // what no option of size changes
  uint64_t load_buffers_ = 0;
};

}  // namespace

const char* place_name(Place place) {
  return place == Place::memory ? "memory" : place == Place::frames ? "disk, read into frames" : "disk, not used";
}

uint64_t table_memory_of_chunk(const format::ModelFile& file, const EngineOptions& options) {
  const format::HyperParams& h = file.hyper();
  const format::Tensor* table = h.ple.empty() ? nullptr : file.find(kTableName);
  const uint64_t frame = options.table.frame_bytes;
  if (table == nullptr || options.table.resident || frame == 0) return 0;
  const uint64_t of_row = pages::frames_of_row(format::row_bytes(table->type, table->ne[0]), frame);
  const uint64_t of_chunk = static_cast<uint64_t>(options.chunk) * static_cast<uint64_t>(h.ple_heads()) * of_row;
  return std::min(of_chunk, table->bytes() / frame + 1) * frame;
}

Result<Plan> make_plan(const format::ModelFile& file, const EngineOptions& options, io::Io& kernel,
                       std::optional<uint64_t> device_free) {
  EVROS_ASSIGN(Planner planner, Planner::create(file, options, kernel));
  planner.base().device_free = device_free;
  const int64_t longest = planner.longest(options);
  const int64_t wanted = options.context > 0 ? options.context : std::min(longest, kDefaultContext);
  const int64_t largest = planner.largest(options, longest);
  planner.base().largest_context = largest;
  planner.base().context_unless_memory = wanted;
  const bool shorter = options.context == 0 && largest > 0 && largest < wanted;
  planner.base().context_choice = options.context > 0                     ? ContextChoice::asked
                                  : shorter                               ? ContextChoice::memory
                                  : wanted == file.hyper().context_length ? ContextChoice::model
                                                                          : ContextChoice::usual;
  EVROS_ASSIGN(Plan plan, planner.plan(options, wanted));
  plan.bytes_unless_memory = plan.total_bytes();
  if (shorter) {
    planner.base().bytes_unless_memory = plan.total_bytes();
    EVROS_ASSIGN(plan, planner.plan(options, largest));
  }
  if (!plan.fits()) plan.advice = planner.advice(options, plan);
  return plan;
}

namespace {

/// "experts 2.0 GiB, scratch 3.0 MiB": what takes memory, without what takes none.
class Shares {
 public:
  void add(std::string_view name, uint64_t bytes) {
    if (bytes > 0) text += cat(text.empty() ? "" : ", ", name, ' ', human_bytes(bytes));
  }
  std::string text;
};

Error device_refusal(const Plan& plan) {
  Shares shares;
  for (const PlanGroup& group : plan.groups) {
    if (group.name != kTableGroup) shares.add(group.name, group.memory_bytes);
  }
  shares.add("session state", plan.banks_bytes());
  shares.add(cat("context of ", plan.context, " tokens"), plan.pages_bytes());
  shares.add("scratch", plan.scratch_bytes);
  return {Code::out_of_memory,
          cat(plan.model, ": ", human_bytes(plan.device_bytes()), " of the GPU's memory are needed and ",
              human_bytes(*plan.device_free), " are free: ", shares.text, "; ", plan.advice)};
}

Error host_refusal(const Plan& plan) {
  const bool all = !plan.device_free;
  Shares shares;
  for (const PlanGroup& group : plan.groups) {
    if (all || group.name == kTableGroup) shares.add(group.name, group.memory_bytes);
  }
  shares.add("session state", plan.tables_bytes + (all ? plan.banks_bytes() : 0));
  shares.add(cat("context of ", plan.context, " tokens"), all ? plan.pages_bytes() : 0);
  shares.add("scratch", all ? plan.scratch_bytes : 0);
  shares.add("buffers", plan.buffer_bytes);
  shares.add("program and vocabulary", plan.program_bytes);
  shares.add("requests and measurements", plan.caller_bytes);
  return {Code::out_of_memory, cat(plan.model, ": ", human_bytes(plan.host_bytes()), " of memory are needed and ",
                                   human_bytes(plan.usable_bytes), " may be used (", plan.usable_because,
                                   "): ", shares.text, "; ", plan.advice)};
}

}  // namespace

Status check_fits(const Plan& plan) {
  if (plan.fits()) return {};
  return plan.device_bytes() > plan.device_free.value_or(0) ? device_refusal(plan) : host_refusal(plan);
}

}  // namespace evros::engine
