#include "engine/plan.h"

#include <algorithm>
#include <limits>

#include "base/str.h"
#include "engine/engine.h"
#include "engine/weight_loader.h"

namespace evros::engine {
namespace {

// Adds up what bind() would load.
class CountingSource : public model::TensorSource {
 public:
  explicit CountingSource(const format::ModelFile& file) : file_(file) {}
  Result<model::Matrix> matrix(const std::string& name) override {
    EVROS_ASSIGN(const format::Tensor* tensor, find_tensor(file_, name));
    bytes += tensor->bytes();
    return matrix_of(*tensor, nullptr);
  }
  Result<const float*> vector(const std::string& name) override {
    EVROS_ASSIGN(const format::Tensor* tensor, find_tensor(file_, name));
    bytes += tensor->elements() * sizeof(float);
    return static_cast<const float*>(nullptr);
  }
  uint64_t bytes = 0;

 private:
  const format::ModelFile& file_;
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
  EVROS_TRY(at_least("threads", options.threads, 0));
  return at_least("chunk", options.chunk, options.batch);
}

Result<int64_t> choose_context(const format::ModelFile& file, int64_t asked) {
  const int64_t most = file.hyper().context_length;
  if (asked > most) {
    return Error{Code::invalid_argument,
                 cat("a context of ", asked, " tokens was asked for; ", file.path(), " was made for at most ", most)};
  }
  return asked > 0 ? asked : std::min(most, kDefaultContext);
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
  const int64_t pooled = pages_of(options.pool_tokens);
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
  const int64_t pages = options.pool_tokens > 0 ? std::min(pooled + slots, each * slots) : each * slots;
  limits.pages = static_cast<int32_t>(pages + options.checkpoints);
  limits.max_tokens = context;
  return limits;
}

// Frames that one row of the table may touch: one when rows fill frames exactly, else it may lie across borders.
int64_t frames_of_row(int64_t row_bytes, int64_t frame) {
  return row_bytes <= frame && frame % row_bytes == 0 ? 1 : (row_bytes + frame - 2) / frame + 1;
}

// A chunk holds the frames of all its table rows at once.
Status check_frames(const EngineOptions& options, const format::HyperParams& h, const format::Tensor& table,
                    int64_t row_bytes) {
  const auto frame = static_cast<int64_t>(options.table.frame_bytes);
  if (options.table.resident || frame == 0) return {};
  const int64_t of_chunk = int64_t{options.chunk} * h.ple_heads() * frames_of_row(row_bytes, frame);
  const int64_t needed = std::min(of_chunk, static_cast<int64_t>(table.bytes() / options.table.frame_bytes) + 1);
  const auto there = static_cast<int64_t>(options.table.memory_bytes / options.table.frame_bytes);
  if (there >= needed) return {};
  return Error{Code::invalid_argument,
               cat("a chunk of ", options.chunk, " tokens may read ", needed, " frames of the n-gram table at once, ",
                   (needed * frame + (1 << 20) - 1) >> 20, " MiB; ", options.table.memory_bytes >> 20,
                   " MiB are set aside for it")};
}

}  // namespace

Result<Plan> make_plan(const format::ModelFile& file, const EngineOptions& options) {
  EVROS_TRY(check_options(options));
  EVROS_ASSIGN(const kernels::CacheType kv, model::parse_cache_type(options.kv));
  EVROS_TRY(check_types(file));
  Plan plan;
  EVROS_ASSIGN(plan.context, choose_context(file, options.context));
  plan.context_of_model = file.hyper().context_length;
  const model::StateLayout state = model::make_state_layout(file.hyper(), kv);
  plan.bank_bytes = state.layout.bank_bytes;
  plan.page_bytes = state.layout.page_bytes;
  plan.page_tokens = state.layout.page_tokens;
  plan.sessions = options.sessions;
  EVROS_ASSIGN(plan.limits, state_limits(options, plan.page_tokens, plan.context));
  plan.pass = {options.chunk, options.batch, options.all_logits ? options.chunk : options.batch, plan.context,
               options.trace};
  CountingSource source(file);
  EVROS_TRY(model::bind(file.hyper(), options.draft_head, source));
  plan.weight_bytes = source.bytes;
  int64_t row_bytes = 0;
  if (const format::Tensor* table = file.hyper().ple.empty() ? nullptr : file.find(kTableName)) {
    row_bytes = static_cast<int64_t>(format::row_bytes(table->type, table->ne[0]));
    EVROS_TRY(check_frames(options, file.hyper(), *table, row_bytes));
    plan.table_bytes = table->bytes();
    plan.table_memory_bytes =
        options.table.resident ? table->bytes() : std::min(options.table.memory_bytes, table->bytes());
  }
  plan.scratch_bytes = model::carve_scratch(file.hyper(), plan.pass, row_bytes, nullptr).bytes;
  return plan;
}

}  // namespace evros::engine
