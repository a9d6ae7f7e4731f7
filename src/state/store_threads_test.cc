// Readers without locks beside publishers: every view shows one history, whole, for as long as it is held. Meant for
// the thread sanitizer, and strong without it because released banks and pages are poisoned in test builds.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "state/store.h"
#include "state/toy_testing.h"

namespace evros::state {
namespace {

constexpr int32_t kSlots = 3;

struct Shared {
  Store& store;
  const Layout layout = toy::layout();
  std::atomic<uint64_t> addresses[kSlots] = {};  // slot and generation, as the last opener left them
  std::atomic<bool> stop{false};
  std::atomic<int> reads{0}, wrong{0}, stale{0};

  SlotId address(int32_t i) const {
    const uint64_t packed = addresses[i].load();
    return {static_cast<int32_t>(packed >> 32), static_cast<uint32_t>(packed)};
  }
  void set_address(int32_t i, SlotId id) {
    addresses[i].store(static_cast<uint64_t>(static_cast<uint32_t>(id.slot)) << 32 | id.generation);
  }
};

void read_on(Shared& shared, uint32_t seed) {
  std::mt19937 random(seed);
  uint64_t newest = 0;
  while (!shared.stop.load()) {
    const auto view = shared.store.view(shared.address(static_cast<int32_t>(random() % kSlots)));
    if (!view.ok()) {
      ++shared.stale;
      continue;
    }
    if (view->sequence() < newest || !toy::shows_one_history(shared.layout, *view)) ++shared.wrong;
    newest = view->sequence();
    if (random() % 4 == 0) std::this_thread::yield();  // held while others publish
    if (!toy::shows_one_history(shared.layout, *view)) ++shared.wrong;
    ++shared.reads;
  }
}

/// One chunk of random tokens, published or dropped.
void grow(Shared& shared, SlotId id, std::mt19937& random) {
  std::vector<int32_t> tokens(1 + random() % 6);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 100);
  const Append append{id, tokens};
  auto transaction = shared.store.begin({&append, 1});
  if (!transaction.ok()) {
    if (transaction.error().code == Code::invalid_argument) (void)shared.store.reset(id);  // full
    return;
  }
  toy::run_stages(shared.layout, transaction->images()[0], tokens, true);
  const bool clean = random() % 5 != 0;
  shared.store.publish(std::move(*transaction), {&clean, 1});
}

/// One publisher owns the sequence at `mine` and does everything that can be done to it.
void write_on(Shared& shared, int32_t mine, int rounds) {
  std::mt19937 random(static_cast<uint32_t>(1000 + mine));
  for (int round = 0; round < rounds; ++round) {
    const SlotId id = shared.address(mine);
    const auto what = random() % 12;
    if (what == 0) {
      (void)shared.store.reset(id);  // may be busy: held views
    } else if (what == 1) {
      if (!shared.store.close(id).ok()) continue;
      auto next = shared.store.open();
      while (!next.ok()) {
        std::this_thread::yield();
        next = shared.store.open();
      }
      shared.set_address(mine, *next);
    } else if (what == 2) {  // go on as a fork of oneself
      const auto fork = shared.store.fork(id);
      if (!fork.ok()) continue;
      shared.set_address(mine, *fork);
      while (!shared.store.close(id).ok()) std::this_thread::yield();
    } else if (what == 3) {  // forth and back
      const auto kept = shared.store.checkpoint(id);
      for (int i = 0; i < 3; ++i) grow(shared, id, random);
      if (!kept.ok()) continue;
      (void)shared.store.rewind(id, *kept);  // may be busy, or the checkpoint went with a reset
      (void)shared.store.release(*kept);
    } else if (what == 4) {  // a longer history is made aside and replaces the old one
      const uint64_t seen = shared.store.view(id)->changed();
      const auto fork = shared.store.fork(id);
      if (!fork.ok()) continue;
      for (int i = 0; i < 3; ++i) grow(shared, *fork, random);
      (void)shared.store.replace(id, *fork, seen);
      while (!shared.store.close(*fork).ok()) std::this_thread::yield();
    } else {
      grow(shared, id, random);
    }
  }
}

TEST(StoreThreads, readers_always_see_one_whole_history_while_publishers_do_everything) {
  const auto device = device::make_host_device(1);
  auto store = Store::create(
      *device, toy::layout(),
      {.slots = 2 * kSlots, .checkpoints = 3, .banks = 40, .pages = 120, .max_tokens = 60, .records = 12});
  ASSERT_TRUE(store.ok());
  Shared shared{**store};
  for (int32_t i = 0; i < kSlots; ++i) shared.set_address(i, *(*store)->open());

  std::vector<std::thread> readers, writers;
  for (uint32_t i = 0; i < 3; ++i) readers.emplace_back([&, i] { read_on(shared, i); });
  for (int32_t i = 0; i < 2; ++i)
    writers.emplace_back([&, i] { write_on(shared, i, 20000); });  // the third sequence rests
  for (std::thread& thread : writers) thread.join();
  while (shared.reads.load() < 5000) std::this_thread::yield();
  shared.stop = true;
  for (std::thread& thread : readers) thread.join();

  EXPECT_EQ(shared.wrong.load(), 0);
  (*store)->check_consistency();
  for (int32_t i = 0; i < kSlots; ++i) EXPECT_TRUE((*store)->close(shared.address(i)).ok());
  const Usage usage = (*store)->usage();
  EXPECT_EQ(usage.slots, 0);
  EXPECT_EQ(usage.banks, 0);
  EXPECT_EQ(usage.pages, 0);
  EXPECT_EQ(usage.records, 1);
}

// Three records only: a publication soon reuses the one before the last, so a reader that pins too late, or does not
// look again after pinning, reads a record that is being rewritten.
TEST(StoreThreads, a_record_is_never_rewritten_under_a_reader) {
  const auto device = device::make_host_device(1);
  auto store =
      Store::create(*device, toy::layout(), {.slots = 1, .banks = 3, .pages = 2, .max_tokens = 8, .records = 3});
  ASSERT_TRUE(store.ok());
  const SlotId id = *(*store)->open();
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, reads{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop.load()) {
        const auto view = (*store)->view(id);
        const uint64_t sequence = view->sequence();
        const int64_t frontier = view->frontier();
        if (frontier != static_cast<int64_t>(sequence + 1) % 2) ++wrong;  // opened by 1, one token by 2, reset by 3 ...
        if (view->sequence() != sequence || view->frontier() != frontier) ++wrong;
        if (++reads % 4 == 0) std::this_thread::yield();
      }
    });
  }
  // Held views may use up the records: then a publication is tried again. Until there were many reads beside many
  // publications, which takes two cores at once: on a busy machine one thread may have its core alone for a while.
  const auto start = std::chrono::steady_clock::now();
  const auto enough = [&] {
    const auto passed = std::chrono::steady_clock::now() - start;
    return passed > std::chrono::seconds(20) || (passed > std::chrono::milliseconds(700) && reads.load() > 1'000'000);
  };
  int published = 0;
  while (!enough()) {
    const std::vector<int32_t> token{7};
    const Append append{id, token};
    auto transaction = (*store)->begin({&append, 1});
    if (!transaction.ok()) {
      std::this_thread::yield();
      continue;
    }
    const bool clean = true;
    (*store)->publish(std::move(*transaction), {&clean, 1});
    while (!(*store)->reset(id).ok()) std::this_thread::yield();
    ++published;
  }
  stop = true;
  for (std::thread& thread : readers) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_GT(reads.load(), 0);
  EXPECT_GT(published, 10);
  (*store)->check_consistency();
}

}  // namespace
}  // namespace evros::state
