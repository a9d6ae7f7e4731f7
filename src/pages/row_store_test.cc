#include "pages/row_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "base/str.h"

namespace evros::pages {
namespace {

/// What the fake table holds at byte `offset`.
std::byte byte_at(uint64_t offset) { return static_cast<std::byte>(((offset + 1) * 0x9E3779B97F4A7C15U) >> 53); }

/// A model with one table whose bytes are computed, not stored. Reads can be made to fail; a failing read first scribbles.
class FakeModel final : public format::ModelFile {
 public:
  const std::string& path() const override { return path_; }
  std::string_view container() const override { return "fake"; }
  const std::string& name() const override { return path_; }
  const format::HyperParams& hyper() const override { return hyper_; }
  std::span<const format::Tensor> tensors() const override { return {}; }
  const format::Tensor* find(std::string_view) const override { return nullptr; }
  const format::TextAssets& text() const override { return text_; }
  const format::SamplingDefaults& sampling() const override { return sampling_; }
  std::span<const format::MetadataEntry> metadata() const override { return {}; }
  std::span<const std::string> files() const override { return {}; }

  Status read(const format::Tensor& tensor, uint64_t offset, std::span<std::byte> out) const override {
    uint64_t bytes = 0;
    for (const format::Piece& piece : tensor.pieces) bytes += piece.bytes;
    EXPECT_LE(out.size(), bytes);
    EXPECT_LE(offset, bytes - out.size());
    const int64_t number = reads++;
    {
      const std::lock_guard lock(mutex_);
      for (uint64_t at = offset; at < offset + out.size(); at += 4096) unannounced += announced.erase(at) == 0 ? 1 : 0;
      longest = std::max<uint64_t>(longest, out.size());
    }
    if (slow) std::this_thread::sleep_for(std::chrono::microseconds(number % 5 * 50));
    const bool failing = number == fail_at || (fail_every > 0 && number % fail_every == fail_every - 1);
    const size_t good = failing ? out.size() / 2 : out.size();
    for (size_t i = 0; i < out.size(); ++i) out[i] = i < good ? byte_at(offset + i) : std::byte{0xEE};
    if (failing) return Error{Code::io, cat("fake: read ", number, " failed")};
    return {};
  }

  void will_read(const format::Tensor&, uint64_t offset, uint64_t bytes) const override {
    const std::lock_guard lock(mutex_);
    EXPECT_LE(bytes, 4096U);
    announced.insert(offset);
  }

  mutable std::atomic<int64_t> reads{0};
  mutable std::set<uint64_t> announced;  // where frames of 4096 bytes begin that were announced and not read since
  mutable int64_t unannounced = 0;
  mutable uint64_t longest = 0;
  int64_t fail_at = -1, fail_every = 0;
  bool slow = false;

 private:
  mutable std::mutex mutex_;
  const std::string path_ = "fake.gguf";
  const format::HyperParams hyper_{};
  const format::TextAssets text_{};
  const format::SamplingDefaults sampling_{};
};

/// `rows` rows of `row_bytes` bytes, stored in pieces of odd lengths.
format::Tensor table(uint64_t rows, uint64_t row_bytes) {
  format::Tensor t;
  t.name = "per_layer_token_embd.weight";
  t.type = format::TensorType::i8;
  t.ne = {row_bytes, rows, 1, 1};
  t.dims = 2;
  const uint64_t bytes = rows * row_bytes, first = bytes / 3;
  t.pieces = {{0, 4096, first}, {1, 128, bytes - first}};
  return t;
}

std::unique_ptr<RowStore> open(const format::ModelFile& file, const format::Tensor& t, RowStoreOptions options) {
  auto made = RowStore::create(file, t, options);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return made.ok() ? std::move(*made) : nullptr;
}

void expect_rows(const RowStore& store, const Lease& lease, const std::vector<uint64_t>& rows) {
  ASSERT_EQ(lease.rows(), rows.size());
  std::vector<std::byte> row(store.row_bytes() + 1);
  for (size_t i = 0; i < rows.size(); ++i) {
    row.back() = std::byte{0x5A};
    lease.copy_row(i, row.data());
    ASSERT_EQ(row.back(), std::byte{0x5A});
    for (uint64_t k = 0; k < store.row_bytes(); ++k)
      ASSERT_EQ(row[k], byte_at(rows[i] * store.row_bytes() + k)) << rows[i];
  }
}

std::vector<uint64_t> random_rows(std::mt19937_64& random, uint64_t of, size_t count) {
  std::vector<uint64_t> out(count);
  for (uint64_t& row : out) row = random() % of;
  return out;
}

TEST(RowStore, random_rows_equal_direct_reads_for_many_shapes) {
  std::mt19937_64 random(1);
  for (const uint64_t row_bytes : {uint64_t{1}, uint64_t{34}, uint64_t{90}, uint64_t{256}, uint64_t{700}}) {
    for (const uint32_t frame_bytes : {64U, 90U, 256U, 4096U}) {
      FakeModel file;
      const auto store = open(file, table(997, row_bytes), {.memory_bytes = 40 * 4096, .frame_bytes = frame_bytes});
      EXPECT_EQ(store->rows(), 997U);
      EXPECT_EQ(store->row_bytes(), row_bytes);
      for (int round = 0; round < 50; ++round) {
        std::vector<uint64_t> rows = random_rows(random, 997, 1 + random() % 12);
        if (round % 5 == 0) rows.push_back(996);  // the last frame is short
        if (round % 7 == 0) rows.push_back(rows.front());
        const auto lease = store->acquire(rows);
        ASSERT_TRUE(lease.ok()) << lease.error().message;
        expect_rows(*store, *lease, rows);
      }
      EXPECT_EQ(store->frames_leased(), 0);
    }
  }
}

TEST(RowStore, announced_are_the_frames_that_an_acquire_then_reads) {
  FakeModel file;
  const auto store = open(file, table(100'000, 90), {.memory_bytes = 1 << 20});
  std::mt19937_64 random(5);
  for (int round = 0; round < 20; ++round) {
    std::vector<uint64_t> rows = random_rows(random, 100'000, 16);
    store->announce(rows);
    EXPECT_EQ(store->stats().rows_asked, static_cast<uint64_t>(16 * round));
    const auto lease = store->acquire(rows);
    ASSERT_TRUE(lease.ok()) << lease.error().message;
    expect_rows(*store, *lease, rows);
    EXPECT_TRUE(file.announced.empty());
    rows.push_back(100'000);  // there is none
    store->announce(rows);
    EXPECT_TRUE(file.announced.empty());
  }
  EXPECT_EQ(file.unannounced, 0);
}

TEST(RowStore, a_table_of_51_gigabytes_opens_at_once_and_its_last_row_is_right) {
  FakeModel file;
  const uint64_t rows = 51'000'000'000U / 90;
  const auto store = open(file, table(rows, 90), {.memory_bytes = 1 << 20});
  EXPECT_EQ(file.reads.load(), 0);
  EXPECT_EQ(store->rows(), rows);
  std::mt19937_64 random(2);
  for (int round = 0; round < 100; ++round) {
    std::vector<uint64_t> asked = random_rows(random, rows, 60);
    asked.push_back(rows - 1);
    asked.push_back((uint64_t{1} << 32) / 90);  // straddles byte 2^32
    asked.push_back((uint64_t{1} << 35) / 90 + 1);
    const auto lease = store->acquire(asked);
    ASSERT_TRUE(lease.ok());
    expect_rows(*store, *lease, asked);
  }
  EXPECT_LE(store->stats().bytes_read, uint64_t{100} * 63 * 2 * 4096);
}

TEST(RowStore, rows_that_are_there_are_not_read_again_and_duplicates_once) {
  FakeModel file;
  const auto store = open(file, table(1000, 64), {.memory_bytes = 64 * 256, .frame_bytes = 256});
  const std::vector<uint64_t> rows{5, 5, 6, 900, 5};
  { ASSERT_TRUE(store->acquire(rows).ok()); }
  EXPECT_EQ(store->stats().frames_read, 2U);  // rows 4-7 share a frame
  EXPECT_EQ(store->stats().bytes_read, 512U);
  EXPECT_EQ(store->stats().rows_hit, 0U);
  { ASSERT_TRUE(store->acquire(rows).ok()); }
  EXPECT_EQ(file.reads.load(), 2);
  EXPECT_EQ(store->stats().rows_asked, 10U);
  EXPECT_EQ(store->stats().rows_hit, 5U);
}

TEST(RowStore, adjacent_frames_are_one_read_of_bounded_length) {
  FakeModel file;
  const auto store = open(file, table(1 << 20, 64), {.memory_bytes = 8 << 20, .frame_bytes = 4096});
  std::vector<uint64_t> rows;
  for (uint64_t row = 0; row < 64 * 200; ++row) rows.push_back(row);  // 200 frames, 800 KiB
  const auto lease = store->acquire(rows);
  ASSERT_TRUE(lease.ok());
  EXPECT_EQ(file.reads.load(), 4);
  EXPECT_EQ(file.longest, 256U << 10);
  EXPECT_EQ(store->stats().frames_read, 200U);
  expect_rows(*store, *lease, rows);
}

TEST(RowStore, leased_frames_survive_any_later_traffic) {
  FakeModel file;
  const auto store = open(file, table(5000, 90), {.memory_bytes = 16 * 128, .frame_bytes = 128});
  std::mt19937_64 random(3);
  const std::vector<uint64_t> kept{7, 4999, 2000};
  const auto lease = store->acquire(kept);
  ASSERT_TRUE(lease.ok());
  for (int round = 0; round < 2000; ++round) {
    const auto other = store->acquire(random_rows(random, 5000, 1 + random() % 4));
    ASSERT_TRUE(other.ok()) << other.error().message;
  }
  expect_rows(*store, *lease, kept);
}

TEST(RowStore, a_lease_that_does_not_fit_is_refused_and_holds_nothing) {
  FakeModel file;
  const auto store = open(file, table(5000, 64), {.memory_bytes = 4 * 64, .frame_bytes = 64});
  const auto too_large = store->acquire(std::vector<uint64_t>{1, 2, 3, 4, 5});
  ASSERT_FALSE(too_large.ok());
  EXPECT_EQ(too_large.error().code, Code::out_of_memory);
  EXPECT_EQ(store->frames_leased(), 0);

  auto first = store->acquire(std::vector<uint64_t>{1, 2, 3});
  ASSERT_TRUE(first.ok());
  const auto second = store->acquire(std::vector<uint64_t>{3, 4, 5});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::busy);
  EXPECT_EQ(store->frames_leased(), 3);
  EXPECT_TRUE(store->acquire(std::vector<uint64_t>{3, 4}).ok());
  *first = Lease();
  EXPECT_EQ(store->frames_leased(), 0);
  EXPECT_TRUE(store->acquire(std::vector<uint64_t>{3, 4, 5}).ok());
}

TEST(RowStore, rows_outside_the_table_are_refused_with_the_numbers) {
  FakeModel file;
  for (const bool resident : {false, true}) {
    const auto store = open(file, table(50, 90), {.memory_bytes = 1 << 16, .resident = resident});
    for (const uint64_t row : {uint64_t{50}, ~uint64_t{0}, uint64_t{1} << 63}) {
      const auto lease = store->acquire(std::vector<uint64_t>{3, row});
      ASSERT_FALSE(lease.ok());
      EXPECT_EQ(lease.error().code, Code::invalid_argument);
      EXPECT_NE(lease.error().message.find(std::to_string(row)), std::string::npos);
      EXPECT_NE(lease.error().message.find("50"), std::string::npos);
    }
    EXPECT_EQ(store->frames_leased(), 0);
  }
}

TEST(RowStore, a_failed_read_leaves_nothing_leased_and_no_half_frame_whichever_read_it_is) {
  const std::vector<uint64_t> rows{1, 40, 41, 42, 80, 300, 301, 700, 999};
  for (int64_t n = 0;; ++n) {
    FakeModel file;
    file.fail_at = n;
    const auto store = open(file, table(1000, 90), {.memory_bytes = 32 * 128, .frame_bytes = 128});
    const auto lease = store->acquire(rows);
    if (lease.ok()) {
      ASSERT_GT(n, 4);  // the fault was beyond the last read: all were tried
      break;
    }
    EXPECT_EQ(lease.error().code, Code::io);
    EXPECT_EQ(store->frames_leased(), 0);
    const auto again = store->acquire(rows);
    ASSERT_TRUE(again.ok());
    expect_rows(*store, *again, rows);
    if (n == 0) {
      EXPECT_EQ(store->stats().rows_hit, 0U);  // an empty frame is no hit
    }
  }
}

TEST(RowStore, rows_in_use_stay_while_others_pass_by) {
  FakeModel file;
  const auto store = open(file, table(1000, 64), {.memory_bytes = 8 * 64, .frame_bytes = 64});
  for (uint64_t cold = 10; cold < 500; ++cold) {
    ASSERT_TRUE(store->acquire(std::vector<uint64_t>{3}).ok());
    ASSERT_TRUE(store->acquire(std::vector<uint64_t>{cold}).ok());
  }
  EXPECT_EQ(store->stats().frames_read, 491U);  // row 3 once
}

TEST(RowStore, resident_tables_are_read_at_start_whole_or_not_at_all) {
  FakeModel file;
  const auto store = open(file, table(200'000, 90), {.memory_bytes = 0, .resident = true});  // 18 MB: several reads
  const int64_t reads = file.reads.load();
  EXPECT_GT(reads, 1);
  std::mt19937_64 random(4);
  const std::vector<uint64_t> rows = random_rows(random, 200'000, 500);
  const auto lease = store->acquire(rows);
  ASSERT_TRUE(lease.ok());
  expect_rows(*store, *lease, rows);
  EXPECT_EQ(file.reads.load(), reads);
  EXPECT_EQ(store->frames_leased(), 0);
  for (int64_t n = 0; n < reads; ++n) {
    FakeModel torn;
    torn.fail_at = n;
    EXPECT_EQ(RowStore::create(torn, table(200'000, 90), {.resident = true}).error().code, Code::io);
  }
}

TEST(RowStore, impossible_tables_and_budgets_are_refused) {
  FakeModel file;
  const auto code = [&](const format::Tensor& t, RowStoreOptions options) {
    const auto made = RowStore::create(file, t, options);
    return made.ok() ? std::string("ok") : std::string(code_name(made.error().code));
  };
  EXPECT_EQ(code(table(50, 90), {.memory_bytes = 127, .frame_bytes = 64}), "invalid_argument");
  EXPECT_EQ(code(table(50, 90), {.memory_bytes = 191, .frame_bytes = 64}),
            "invalid_argument");  // a row may touch 3 frames
  EXPECT_EQ(code(table(50, 90), {.memory_bytes = 192, .frame_bytes = 64}), "ok");
  EXPECT_EQ(code(table(50, 90), {.frame_bytes = 0}), "invalid_argument");
  format::Tensor reordered = table(50, 90);
  reordered.columns.key_heads = 2;
  EXPECT_EQ(code(reordered, {}), "unsupported");
  format::Tensor short_pieces = table(50, 90);
  short_pieces.pieces.back().bytes -= 1;
  EXPECT_EQ(code(short_pieces, {}), "bad_file");
  format::Tensor wrapping = table(50, 90);
  wrapping.pieces.push_back({0, 0, ~uint64_t{0}});
  EXPECT_EQ(code(wrapping, {}), "bad_file");
  EXPECT_EQ(code(table(uint64_t{1} << 60, 1), {.resident = true}), "out_of_memory");
}

/// Threads that fight for a few frames, with reads that fail now and then: every lease that is granted is right.
void fight(int64_t fail_every, uint64_t frames) {
  FakeModel file;
  file.slow = true;
  file.fail_every = fail_every;
  const auto store = open(file, table(400, 90), {.memory_bytes = frames * 128, .frame_bytes = 128});
  std::atomic<int> granted{0}, failed{0}, busy{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(100 + t);
      for (int round = 0; round < 400; ++round) {
        const std::vector<uint64_t> rows = random_rows(random, round % 2 == 0 ? 400 : 20, 1 + random() % 6);
        const auto lease = store->acquire(rows);
        if (!lease.ok()) {
          ++(lease.error().code == Code::busy ? busy : failed);
          continue;
        }
        ++granted;
        expect_rows(*store, *lease, rows);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(granted.load(), 100);
  if (fail_every == 0) {
    EXPECT_EQ(failed.load(), 0);
  } else {
    EXPECT_GT(failed.load(), 0);
  }
  EXPECT_EQ(store->frames_leased(), 0);
}

TEST(RowStoreThreads, never_see_half_a_frame) { fight(0, 64); }
TEST(RowStoreThreads, never_see_half_a_frame_when_frames_are_scarce) { fight(0, 14); }
TEST(RowStoreThreads, never_see_the_rest_of_a_failed_read) { fight(7, 64); }

}  // namespace
}  // namespace evros::pages
