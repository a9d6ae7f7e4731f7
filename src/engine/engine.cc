#include "engine/engine.h"

#include <algorithm>

#include "base/str.h"
#include "engine/devices.h"
#include "engine/engine_impl.h"
#include "engine/self_check.h"

namespace evros::engine {

Status Engine::Impl::check_tokens(std::span<const int32_t> tokens) const {
  if (tokens.empty()) return Error{Code::invalid_argument, "no tokens were given; at least one is needed"};
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < model.hyper.vocab) continue;
    return Error{Code::invalid_argument, cat("token ", i, " is ", tokens[i], "; the vocabulary of ", info.model,
                                             " has ids 0 to ", model.hyper.vocab - 1)};
  }
  return {};
}

Result<std::vector<int64_t>> Engine::Impl::history(const state::Store& in, SessionId session) const {
  std::vector<int64_t> ids(model.hyper.ple.empty() ? 0 : static_cast<size_t>(model.hyper.ngram_size - 1),
                           model.hyper.ple_eos);
  EVROS_ASSIGN(const state::View view, in.view(session));
  const int64_t known = std::min<int64_t>(view.frontier(), static_cast<int64_t>(ids.size()));
  std::vector<int32_t> newest(static_cast<size_t>(known));
  view.tokens(view.frontier() - known, newest);
  std::copy(newest.rbegin(), newest.rend(), ids.begin());
  return ids;
}

Result<std::vector<Status>> Engine::Impl::attempt(state::Store& in, Forward& on, std::span<const ChunkRow> rows,
                                                  const ChunkOptions& chunk) {
  std::vector<state::Append> appends;
  for (const ChunkRow& row : rows) appends.push_back({row.session, row.tokens});
  EVROS_ASSIGN(state::Transaction transaction, in.begin(appends));
  std::vector<ForwardRow> forward_rows;
  for (size_t i = 0; i < rows.size(); ++i) {
    EVROS_ASSIGN(std::vector<int64_t> before, history(in, rows[i].session));
    forward_rows.push_back({&transaction.images()[i], rows[i].tokens, std::move(before)});
  }
  EVROS_ASSIGN(const std::span<const Status> seen, on.run(forward_rows, chunk));
  std::vector<Status> statuses(seen.begin(), seen.end());
  const auto clean = std::make_unique<bool[]>(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) clean[i] = statuses[i].ok();
  in.publish(std::move(transaction), {clean.get(), rows.size()});
  return statuses;
}

Result<std::vector<Status>> Engine::Impl::transact(state::Store& in, Forward& on, std::span<const ChunkRow> rows,
                                                   const ChunkOptions& chunk) {
  auto statuses = attempt(in, on, rows, chunk);
  // No sequence is to blame for what the device reports, and nothing public has changed: once more, from the start.
  if (!statuses.ok() && statuses.error().code == Code::device && !in.device().lost())
    statuses = attempt(in, on, rows, chunk);
  return statuses;
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::load(io::Io& io, const std::string& path, const EngineOptions& options) try {
  EVROS_ASSIGN(auto device, open_device(options));
  EngineOptions completed = options;
  if (!completed.reopen && device->kernels() != nullptr) {
    EngineOptions same = options;
    same.device = "cuda";
    completed.reopen = [same = std::move(same)] { return open_device(same); };
  }
  return load(io, std::move(device), path, completed);
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
  EVROS_ASSIGN(impl->file, format::open_model(io, path));
  const std::optional<uint64_t> device_free = device->free_memory();
  EVROS_ASSIGN(impl->info.plan, make_plan(*impl->file, options, io::real_io(), device_free));
  if (options.on_plan) options.on_plan(impl->info.plan);
  if (device->host_addressable() || device_free) EVROS_TRY(check_fits(impl->info.plan));
  impl->model.hyper = impl->file->hyper();
  impl->model.state = model::make_state_layout(impl->model.hyper, impl->model.numerics.kv);
  EVROS_TRY(choose_kernels(*device, options.kernels));
  const format::Tensor* table = impl->model.hyper.ple.empty() ? nullptr : impl->file->find(kTableName);
  if (table != nullptr) {
    EVROS_ASSIGN(impl->table, pages::RowStore::create(*impl->file, *table, options.table));
    impl->model.ple_type = table->type;
    impl->model.ple_row_bytes = static_cast<int64_t>(impl->table->row_bytes());
  }
  EVROS_ASSIGN(Impl::Residence home, impl->move_to(std::move(device), nullptr));
  impl->settle(std::move(home));
  EVROS_ASSIGN(impl->spare, impl->store->open());

  EngineInfo& info = impl->info;
  info.model = impl->file->name();
  info.container = impl->file->container();
  info.numerics = impl->model.numerics.id();
  info.threads = device::thread_count(options.threads);
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<Engine::Impl::Residence> Engine::Impl::move_to(std::unique_ptr<device::Device> to, const state::Store* lost) {
  Residence home;
  home.device = std::move(to);
  EVROS_ASSIGN(model.kernels, choose_kernels(*home.device, options.kernels));
  EVROS_TRY(self_check(*model.kernels, *home.device));
  if (lost != nullptr) {
    EVROS_ASSIGN(home.store, state::Store::create_after(*lost, *home.device));
  } else {
    EVROS_ASSIGN(home.store, state::Store::create(*home.device, model.state.layout, info.plan.limits));
  }
  EVROS_ASSIGN(home.forward, Forward::create(model, table.get(), *home.device, info.plan.pass));
  home.weights = std::make_unique<WeightLoader>(*file, *home.device, device::thread_count(options.threads),
                                                info.plan.weight_bytes);
  if (lost == nullptr) home.weights->report_to(options.progress);  // it is load()'s alone
  EVROS_ASSIGN(model.weights, model::bind(model.hyper, options.draft_head, *home.weights));
  home.weights->finish();
  return home;
}

// What lay on the old device goes before it does.
void Engine::Impl::settle(Residence home) {
  forward = std::move(home.forward);
  store = std::move(home.store);
  weights = std::move(home.weights);
  device = std::move(home.device);
  info.kernels = model.kernels->name;
  info.device = device->name();
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
const std::map<const std::byte*, std::string>& Engine::weight_names() const { return impl_->weights->names(); }
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
  std::vector<float> whole(out.size());  // a download that fails may have written some of them
  const Status read = impl_->surviving([&]() -> Status {
    EVROS_ASSIGN(const state::View view, impl_->store->view(session));
    if (view.frontier() == 0) return Error{Code::invalid_argument, "the session holds no tokens, so it has no logits"};
    return impl_->device->download(std::as_writable_bytes(std::span(whole)), view.bank() + impl_->model.state.logits);
  });
  EVROS_TRY(read);
  std::copy(whole.begin(), whole.end(), out.begin());
  return {};
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<std::vector<Status>> Engine::run_chunk(std::span<const ChunkRow> rows, const ChunkOptions& options) try {
  const device::FloatEnvironment environment;
  size_t tokens = 0;
  for (const ChunkRow& row : rows) {
    EVROS_TRY(impl_->check_tokens(row.tokens));
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
  return impl_->surviving([&] { return impl_->transact(*impl_->store, *impl_->forward, rows, options); });
} catch (const std::bad_alloc&) {
  return no_memory();
}

}  // namespace evros::engine
