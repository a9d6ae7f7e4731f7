// A forward pass takes no memory: what it needs is there when the engine is loaded (docs/kernels.md, docs/state.md S8). This
// program counts operator new while model, kernels, worker pool, table leases, Forward::run and publication work.
//
// Outside of what is counted, and left to allocate: Store::begin (the transaction and its list of images), what
// Engine::run_chunk hands to its caller (the list of statuses) and the lists it makes of the caller's rows, and the
// sentence of an error. None of that grows with the tokens of a chunk, which the last test asserts.
#include <atomic>
#include <cstdlib>
#include <new>

#include "base/rng.h"
#include "engine/forward.h"
#include "golden.h"

namespace evros::tests {
namespace {

std::atomic<bool> counting{false};
std::atomic<uint64_t> allocations{0};

void* take(std::size_t bytes, std::size_t alignment) noexcept {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes == 0 ? 1 : bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

// Not inline: GCC sees free() beside operator new otherwise and warns of what is meant.
[[gnu::noinline]] void give_back(void* memory) noexcept { std::free(memory); }

void* take_or_throw(std::size_t bytes, std::size_t alignment) {
  void* memory = take(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace
}  // namespace evros::tests

using evros::tests::give_back;
using evros::tests::take;
using evros::tests::take_or_throw;

void* operator new(std::size_t n) { return take_or_throw(n, 1); }
void* operator new[](std::size_t n) { return take_or_throw(n, 1); }
void* operator new(std::size_t n, std::align_val_t a) { return take_or_throw(n, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return take_or_throw(n, static_cast<std::size_t>(a)); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return take(n, 1); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return take(n, 1); }
void operator delete(void* p) noexcept { give_back(p); }
void operator delete[](void* p) noexcept { give_back(p); }
void operator delete(void* p, std::size_t) noexcept { give_back(p); }
void operator delete[](void* p, std::size_t) noexcept { give_back(p); }
void operator delete(void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete[](void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { give_back(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { give_back(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { give_back(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { give_back(p); }

namespace evros::tests {
namespace {

constexpr int32_t kChunk = 48;

/// Allocations of all threads while `work` runs.
template <typename Work>
uint64_t count(const Work& work) {
  allocations.store(0);
  counting.store(true);
  work();
  counting.store(false);
  return allocations.load();
}

std::vector<int32_t> random_tokens(const engine::Engine& engine, uint32_t stream, size_t n) {
  std::vector<int32_t> ids(n);
  for (size_t i = 0; i < n; ++i) ids[i] = static_cast<int32_t>(uniform(7, stream, i) * engine.model().hyper.vocab);
  return ids;
}

/// The engine's parts below Engine::run_chunk, with the weights of a loaded engine, and two sequences.
class Parts {
 public:
  Parts(engine::Engine& engine, const pages::RowStoreOptions& rows) : engine_(engine) {
    const format::Tensor* table = engine.file().find(engine::kTableName);
    if (!engine.model().hyper.ple.empty() && table != nullptr)
      table_ = must(pages::RowStore::create(engine.file(), *table, rows));
    const engine::Plan& plan = engine.info().plan;
    store_ = must(state::Store::create(engine.device(), engine.model().state.layout, plan.limits));
    forward_ = must(engine::Forward::create(engine.model(), table_.get(), engine.device(), plan.pass));
    for (auto& sequence : sequences_) sequence.id = must(store_->open());
  }

  /// Appends n tokens to each of the first `count` sequences and publishes them. Returns what that allocated.
  uint64_t append(size_t used, size_t n) {
    std::vector<std::vector<int32_t>> tokens;
    std::vector<state::Append> appends;
    for (size_t i = 0; i < used; ++i) {
      tokens.push_back(random_tokens(engine_, static_cast<uint32_t>(i + 2 * sequences_[i].known.size()), n));
      appends.push_back({sequences_[i].id, tokens.back()});
    }
    auto transaction = must(store_->begin(appends));
    std::vector<engine::ForwardRow> rows;
    for (size_t i = 0; i < used; ++i)
      rows.push_back({&transaction.images()[i], tokens[i], history(sequences_[i].known)});
    const bool clean[] = {true, true};
    bool passed = true;
    const uint64_t counted = tests::count([&] {
      const auto statuses = forward_->run(rows, {});
      passed = statuses.ok();
      if (statuses.ok()) {
        for (const Status& status : *statuses) passed = passed && status.ok();
      }
      store_->publish(std::move(transaction), {clean, used});
    });
    EXPECT_TRUE(passed);
    for (size_t i = 0; i < used; ++i) {
      sequences_[i].known.insert(sequences_[i].known.end(), tokens[i].begin(), tokens[i].end());
    }
    return counted;
  }

 private:
  template <typename T>
  static T must(Result<T> result) {
    CHECK(result.ok());
    return std::move(result).value();
  }
  std::vector<int64_t> history(const std::vector<int32_t>& known) const {
    const auto& h = engine_.model().hyper;
    std::vector<int64_t> ids(h.ple.empty() ? 0 : static_cast<size_t>(h.ngram_size - 1), h.ple_eos);
    for (size_t back = 0; back < std::min(ids.size(), known.size()); ++back) ids[back] = known[known.size() - 1 - back];
    return ids;
  }

  engine::Engine& engine_;
  std::unique_ptr<pages::RowStore> table_;
  std::unique_ptr<state::Store> store_;
  std::unique_ptr<engine::Forward> forward_;
  struct Sequence {
    state::SlotId id;
    std::vector<int32_t> known;
  } sequences_[2];
};

std::unique_ptr<engine::Engine> load(const std::string& path, const char* kernels, int threads) {
  engine::EngineOptions options;
  options.kernels = kernels;
  options.threads = threads;
  options.context = 256;
  options.chunk = kChunk;
  options.batch = 2;
  options.sessions = 2;
  return must_load(path, options);
}

/// A whole chunk of one sequence, half a chunk of each of two, and decoding of one and of both.
void expect_no_allocation(const std::string& path) {
  for (const kernels::Kernels* table : kernels::host_tables()) {
    for (const int threads : {1, 2}) {
      const auto engine = load(path, table->name, threads);
      ASSERT_NE(engine, nullptr);
      for (const bool resident : {false, true}) {
        SCOPED_TRACE(path + ", " + table->name + " on " + std::to_string(threads) + (resident ? ", resident" : ""));
        pages::RowStoreOptions rows;
        rows.resident = resident;
        Parts parts(*engine, rows);
        EXPECT_EQ(parts.append(1, kChunk), 0U) << "the first chunk, as large as planned";
        EXPECT_EQ(parts.append(2, kChunk / 2), 0U) << "a chunk of two sequences";
        for (int step = 0; step < 4; ++step) EXPECT_EQ(parts.append(1, 1), 0U) << "decoding, step " << step;
        for (int step = 0; step < 4; ++step) EXPECT_EQ(parts.append(2, 1), 0U) << "decoding two, step " << step;
        EXPECT_EQ(parts.append(1, kChunk), 0U) << "a chunk after decoding";
      }
    }
  }
}

TEST(ForwardPass, TakesNoMemoryOnMicroInAnyTypeWithAnyTable) {
  expect_no_allocation(micro_file("hf"));
  for (const char* type : {"f32", "q8_0", "q4_0"}) expect_no_allocation(micro_gguf(type));
}

TEST(ForwardPass, TakesNoMemoryOnTheBundledModelWithAnyTable) {
  expect_no_allocation(source_path("models/evros-tiny"));
}

TEST(ForwardPass, TheCounterSeesAllocationsOfWorkersToo) {
  // Calls, not new expressions, which a compiler may leave out.
  const auto allocate = [] { ::operator delete(::operator new(100)); };
  EXPECT_EQ(count(allocate), 1U);
  device::Pool pool(2);
  EXPECT_EQ(count([&] {
              pool.parallel(2, [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) allocate();
              });
            }),
            2U);
}

TEST(Engine, AChunkAllocatesTheSameFewListsHoweverManyTokensItHas) {
  const auto engine = load(micro_file("hf"), "", 2);
  ASSERT_NE(engine, nullptr);
  const auto session = engine->open();
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(
      engine->append(*session, random_tokens(*engine, 100, 5)).ok());  // a session without tokens has no history
  std::vector<uint64_t> seen;
  for (const size_t n : {size_t{kChunk}, size_t{1}, size_t{17}, size_t{1}, size_t{kChunk}}) {
    const std::vector<int32_t> tokens = random_tokens(*engine, static_cast<uint32_t>(seen.size()), n);
    const engine::ChunkRow row{*session, tokens};
    bool ok = false;
    seen.push_back(count([&] { ok = engine->run_chunk({&row, 1}).ok(); }));
    EXPECT_TRUE(ok);
  }
  EXPECT_EQ(seen, std::vector<uint64_t>(seen.size(), seen[0]));
  EXPECT_LE(seen[0], 12U);
}

}  // namespace
}  // namespace evros::tests
