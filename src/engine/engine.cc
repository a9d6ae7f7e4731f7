#include "engine/engine.h"

#include <algorithm>

#include "base/str.h"
#include "engine/engine_impl.h"
#include "engine/self_check.h"

namespace evros::engine {

namespace {

Result<const kernels::Kernels*> choose_kernels(const std::string& name) {
  if (name.empty()) return &kernels::best_host_kernels();
  const kernels::Kernels* table = kernels::host_kernels(name.c_str());
  if (table == nullptr) {
    return Error{Code::unsupported,
                 cat("kernels \"", name, "\" are unknown or cannot run on this machine; the default here is \"",
                     kernels::best_host_kernels().name, "\"")};
  }
  return table;
}

}  // namespace

Status Engine::Impl::check_tokens(std::span<const int32_t> tokens) const {
  if (tokens.empty()) return Error{Code::invalid_argument, "no tokens were given; at least one is needed"};
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < model.hyper.vocab) continue;
    return Error{Code::invalid_argument, cat("token ", i, " is ", tokens[i], "; the vocabulary of ", info.model,
                                             " has ids 0 to ", model.hyper.vocab - 1)};
  }
  return {};
}

Result<std::vector<int64_t>> Engine::Impl::history(SessionId session) const {
  std::vector<int64_t> ids(model.hyper.ple.empty() ? 0 : static_cast<size_t>(model.hyper.ngram_size - 1),
                           model.hyper.ple_eos);
  EVROS_ASSIGN(const state::View view, store->view(session));
  const int64_t known = std::min<int64_t>(view.frontier(), static_cast<int64_t>(ids.size()));
  std::vector<int32_t> newest(static_cast<size_t>(known));
  view.tokens(view.frontier() - known, newest);
  std::copy(newest.rbegin(), newest.rend(), ids.begin());
  return ids;
}

Result<std::vector<Status>> Engine::Impl::attempt(std::span<const ChunkRow> rows,
                                                  std::span<const state::Append> appends, const ChunkOptions& chunk) {
  EVROS_ASSIGN(state::Transaction transaction, store->begin(appends));
  std::vector<ForwardRow> forward_rows;
  for (size_t i = 0; i < rows.size(); ++i) {
    EVROS_ASSIGN(std::vector<int64_t> before, history(rows[i].session));
    forward_rows.push_back({&transaction.images()[i], rows[i].tokens, std::move(before)});
  }
  EVROS_ASSIGN(const std::span<const Status> seen, forward->run(forward_rows, chunk));
  std::vector<Status> statuses(seen.begin(), seen.end());
  const auto clean = std::make_unique<bool[]>(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) clean[i] = statuses[i].ok();
  store->publish(std::move(transaction), {clean.get(), rows.size()});
  return statuses;
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::load(io::Io& io, const std::string& path, const EngineOptions& options) try {
  return load(io, device::make_host_device(device::thread_count(options.threads)), path, options);
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<std::unique_ptr<Engine>> Engine::load(io::Io& io, std::unique_ptr<device::Device> device,
                                             const std::string& path, const EngineOptions& options) try {
  const device::FloatEnvironment environment;
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  EVROS_ASSIGN(impl->model.numerics.kv, model::parse_cache_type(options.kv));
  EVROS_ASSIGN(impl->model.numerics.float_activations, model::parse_float_activations(options.numerics));
  EVROS_ASSIGN(impl->model.kernels, choose_kernels(options.kernels));
  EVROS_ASSIGN(impl->file, format::open_model(io, path));
  EVROS_ASSIGN(impl->info.plan, make_plan(*impl->file, options));
  if (options.on_plan) options.on_plan(impl->info.plan);
  if (device->host_addressable()) EVROS_TRY(check_fits(impl->info.plan));
  impl->model.hyper = impl->file->hyper();
  impl->model.state = model::make_state_layout(impl->model.hyper, impl->model.numerics.kv);
  impl->device = std::move(device);
  EVROS_TRY(self_check(*impl->model.kernels, *impl->device));

  const format::Tensor* table = impl->model.hyper.ple.empty() ? nullptr : impl->file->find(kTableName);
  if (table != nullptr) {
    EVROS_ASSIGN(impl->table, pages::RowStore::create(*impl->file, *table, options.table));
    impl->model.ple_type = table->type;
    impl->model.ple_row_bytes = static_cast<int64_t>(impl->table->row_bytes());
  }
  const Plan& plan = impl->info.plan;
  EVROS_ASSIGN(impl->store, state::Store::create(*impl->device, impl->model.state.layout, plan.limits));
  EVROS_ASSIGN(impl->forward, Forward::create(impl->model, impl->table.get(), *impl->device, plan.pass));
  EVROS_ASSIGN(impl->spare, impl->store->open());
  impl->weights = std::make_unique<WeightLoader>(*impl->file, *impl->device, device::thread_count(options.threads));
  impl->weights->report_to(options.progress, plan.weight_bytes);
  EVROS_ASSIGN(impl->model.weights, model::bind(impl->model.hyper, options.draft_head, *impl->weights));
  impl->weights->finish();

  EngineInfo& info = impl->info;
  info.model = impl->file->name();
  info.container = impl->file->container();
  info.numerics = impl->model.numerics.id();
  info.kernels = impl->model.kernels->name;
  info.device = impl->device->name();
  info.threads = device::thread_count(options.threads);
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
} catch (const std::bad_alloc&) {
  return no_memory();
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const kernels::Kernels* table : kernels::host_tables()) names.emplace_back(table->name);
  return names;
}

const EngineInfo& Engine::info() const { return impl_->info; }
const format::ModelFile& Engine::file() const { return *impl_->file; }
const model::Model& Engine::model() const { return impl_->model; }
device::Device& Engine::device() const { return *impl_->device; }
const state::Store& Engine::store() const { return *impl_->store; }
int32_t Engine::table_frames_held() const { return impl_->table == nullptr ? 0 : impl_->table->frames_leased(); }

Result<SessionId> Engine::open() {
  return guarded([&] { return impl_->store->open(); });
}
Status Engine::close(SessionId session) {
  return guarded([&] { return impl_->store->close(session); });
}
Status Engine::reset(SessionId session) {
  return guarded([&] { return impl_->store->reset(session); });
}
Result<SessionId> Engine::fork(SessionId session) {
  return guarded([&] { return impl_->store->fork(session); });
}
Result<CheckpointId> Engine::checkpoint(SessionId session) {
  return guarded([&] { return impl_->store->checkpoint(session); });
}
Status Engine::release(CheckpointId checkpoint) {
  return guarded([&] { return impl_->store->release(checkpoint); });
}
Result<int64_t> Engine::frontier(SessionId session) const {
  return guarded([&] { return impl_->store->frontier(session); });
}

Result<std::vector<int32_t>> Engine::tokens(SessionId session) const try {
  EVROS_ASSIGN(const state::View view, impl_->store->view(session));
  std::vector<int32_t> ids(static_cast<size_t>(view.frontier()));
  view.tokens(0, ids);
  return ids;
} catch (const std::bad_alloc&) {
  return no_memory();
}

Status Engine::logits(SessionId session, std::span<float> out) const try {
  CHECK(out.size() == static_cast<size_t>(impl_->model.hyper.vocab));
  EVROS_ASSIGN(const state::View view, impl_->store->view(session));
  if (view.frontier() == 0) return Error{Code::invalid_argument, "the session holds no tokens, so it has no logits"};
  std::vector<float> whole(out.size());  // a download that fails may have written some of them
  EVROS_TRY(impl_->device->download(std::as_writable_bytes(std::span(whole)), view.bank() + impl_->model.state.logits));
  std::copy(whole.begin(), whole.end(), out.begin());
  return {};
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<std::vector<Status>> Engine::run_chunk(std::span<const ChunkRow> rows, const ChunkOptions& options) try {
  const device::FloatEnvironment environment;
  std::vector<state::Append> appends;
  size_t tokens = 0;
  for (const ChunkRow& row : rows) {
    EVROS_TRY(impl_->check_tokens(row.tokens));
    appends.push_back({row.session, row.tokens});
    tokens += row.tokens.size();
  }
  if (rows.empty() || rows.size() > static_cast<size_t>(impl_->options.batch) ||
      tokens > static_cast<size_t>(impl_->options.chunk)) {
    return Error{Code::invalid_argument,
                 cat("a chunk of ", rows.size(), " sequences and ", tokens, " tokens; this engine runs 1 to ",
                     impl_->options.batch, " sequences and at most ", impl_->options.chunk, " tokens at once")};
  }
  if (options.all_logits && !impl_->options.all_logits) {
    return Error{Code::invalid_argument,
                 "the logits of every token were asked for; this engine was loaded without all_logits"};
  }
  auto statuses = impl_->attempt(rows, appends, options);
  // No sequence is to blame for what the device reports, and nothing public has changed: once more, from the start.
  if (!statuses.ok() && statuses.error().code == Code::device) statuses = impl_->attempt(rows, appends, options);
  return statuses;
} catch (const std::bad_alloc&) {
  return no_memory();
}

}  // namespace evros::engine
