#include "device/device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

namespace evros::device {
namespace {

TEST(Pool, every_index_is_visited_once_for_any_count_and_thread_number) {
  for (const int threads : {1, 2, 3, 8}) {
    Pool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{7}, int64_t{8}, int64_t{9}, int64_t{1000}}) {
      std::vector<int> visits(static_cast<size_t>(n));
      std::atomic<int> ranges{0};
      pool.parallel(n, [&](int64_t begin, int64_t end) {
        EXPECT_LT(begin, end);
        ++ranges;
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      EXPECT_EQ(visits, std::vector<int>(static_cast<size_t>(n), 1));
      EXPECT_LE(ranges.load(), threads);
    }
  }
}

TEST(Pool, work_of_one_call_is_seen_by_the_next_call_on_other_threads) {
  Pool pool(4);
  std::vector<int64_t> from(64), to(64);
  std::iota(from.begin(), from.end(), 0);
  for (int step = 0; step < 2000; ++step) {
    pool.parallel(64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[static_cast<size_t>(i)] = from[static_cast<size_t>(63 - i)] + 1;
    });
    from.swap(to);
  }
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(from[static_cast<size_t>(i)], i + 2000);
}

TEST(Pool, sleeping_workers_wake_up) {
  Pool pool(3);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int64_t> sum{0};
    pool.parallel(3, [&](int64_t begin, int64_t end) {
      if (begin > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the caller has to sleep as well
      for (int64_t i = begin; i < end; ++i) sum += i;
    });
    EXPECT_EQ(sum.load(), 3);
  }
}

TEST(Pool, one_thread_runs_on_the_caller) {
  Pool pool(1);
  std::thread::id who;
  pool.parallel(10, [&](int64_t, int64_t) { who = std::this_thread::get_id(); });
  EXPECT_EQ(who, std::this_thread::get_id());
}

TEST(Pool, workers_keep_subnormals_and_round_to_nearest_whatever_the_creator_does) {
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  Pool pool(4);  // threads inherit the creator's environment
  std::vector<float> rounded(4, 0.0F), small(4, 0.0F);
  pool.parallel(4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      volatile float one = 1.0F, tiny = 0x1p-30F, least = std::numeric_limits<float>::min();
      rounded[static_cast<size_t>(i)] = one + tiny;
      small[static_cast<size_t>(i)] = least / 2.0F;
    }
  });
  std::fesetround(FE_TONEAREST);
  for (size_t i = 1; i < 4; ++i) {  // range 0 is the caller's own thread and environment
    EXPECT_EQ(rounded[i], 1.0F);
    EXPECT_EQ(small[i], 0x1p-127F);
  }
}

TEST(FloatEnvironment, sets_the_ieee_default_and_restores_what_was_there) {
  ASSERT_EQ(std::fesetround(FE_DOWNWARD), 0);
  volatile float one = 1.0F, tiny = 0x1p-30F;
  {
    const FloatEnvironment environment;
    volatile float r = one - tiny;
    EXPECT_EQ(r, 1.0F);
  }
  volatile float r = one - tiny;
  std::fesetround(FE_TONEAREST);
  EXPECT_LT(r, 1.0F);
}

TEST(HostDevice, buffers_are_aligned_writable_to_the_end_and_moved_not_copied) {
  const auto device = make_host_device(1);
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{65}, uint64_t{1} << 20, (uint64_t{3} << 20) + 5}) {
    auto buffer = device->allocate(bytes, "a test");
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0U);
    ASSERT_TRUE(device->fill(buffer->data(), 0xAB, bytes).ok());
    if (bytes > 0) {
      EXPECT_EQ(buffer->data()[bytes - 1], std::byte{0xAB});
    }
    const std::byte* where = buffer->data();
    Buffer other = std::move(*buffer);
    EXPECT_EQ(other.data(), where);
    EXPECT_EQ(buffer->data(), nullptr);
  }
}

TEST(HostDevice, impossible_sizes_are_refused_with_the_purpose_and_the_bytes) {
  const auto device = make_host_device(1);
  for (const uint64_t bytes : {~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 60}) {
    const auto buffer = device->allocate(bytes, "the banks");
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.error().code, Code::out_of_memory);
    EXPECT_NE(buffer.error().message.find("the banks"), std::string::npos);
    EXPECT_NE(buffer.error().message.find(std::to_string(bytes)), std::string::npos);
  }
}

TEST(HostDevice, copies_and_launches_happen_in_order) {
  const auto device = make_host_device(2);
  auto buffer = device->allocate(256, "a test");
  ASSERT_TRUE(buffer.ok());
  std::vector<std::byte> in(128), out(128);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i);
  ASSERT_TRUE(device->upload(buffer->data(), in).ok());
  ASSERT_TRUE(device->copy(buffer->data() + 128, buffer->data(), 128).ok());
  ASSERT_TRUE(device
                  ->launch({"double", -1, 0, {}, {}},
                           [&](Queue& queue) {
                             ASSERT_NE(queue.pool, nullptr);
                             queue.pool->parallel(128, [&](int64_t begin, int64_t end) {
                               for (int64_t i = begin; i < end; ++i) buffer->as<uint8_t>()[128 + i] *= 2;
                             });
                           })
                  .ok());
  ASSERT_TRUE(device->finish().ok());
  ASSERT_TRUE(device->download(out, buffer->data() + 128).ok());
  for (size_t i = 0; i < 128; ++i) EXPECT_EQ(static_cast<uint8_t>(out[i]), static_cast<uint8_t>(2 * i));
}

}  // namespace
}  // namespace evros::device
