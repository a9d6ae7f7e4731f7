// The parts of `evros bench` that have one right answer; times have none.
#include "ops/speed_bench.h"

#include <gtest/gtest.h>

#include "io/memory_io.h"

namespace evros::ops {
namespace {

void put(io::Io& io, const std::string& path, const std::string& text) {
  ASSERT_TRUE(io.make_folder(path.substr(0, path.rfind('/'))).ok());
  auto file = io.create(path);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->write_at(0, std::as_bytes(std::span(text))).ok());
}

TEST(MachineLimits, TheCacheIsAsLargeAsTheKernelSays) {
  io::MemoryIo io;
  EXPECT_EQ(last_level_cache(io), 0u);
  put(io, "/sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n");
  put(io, "/sys/devices/system/cpu/cpu0/cache/index1/size", "32M\n");
  put(io, "/sys/devices/system/cpu/cpu0/cache/index2/size", "2048K\n");
  EXPECT_EQ(last_level_cache(io), uint64_t{32} << 20);
}

TEST(MachineLimits, TheBufferIsAtMostAQuarterOfTheMemoryThatIsThere) {
  io::MemoryIo io;
  put(io, "/sys/devices/system/cpu/cpu0/cache/index0/size", "32M\n");
  EXPECT_EQ(MachineLimits::buffer_within(io, uint64_t{1} << 40), uint64_t{1} << 30);
  const auto limits = MachineLimits::create(io, 2, MachineLimits::buffer_within(io, uint64_t{40} << 20));
  ASSERT_TRUE(limits.ok());
  EXPECT_EQ(limits->buffer_bytes(), uint64_t{10} << 20);
  EXPECT_FALSE(limits->beyond_cache());
  EXPECT_GT(limits->read(1), 0);
  EXPECT_GT(limits->read(2), 0);
  EXPECT_GT(limits->int8_rate(), 0);
}

TEST(SpeedBench, ContextsGoUpByFourAndEndWhereTheModelDoes) {
  using List = std::vector<int64_t>;
  std::vector<std::string> left_out;
  EXPECT_EQ(choose_contexts({}, 32768, 32, left_out), (List{512, 2048, 8192, 32736}));
  EXPECT_EQ(choose_contexts({}, 4096, 2, left_out), (List{512, 2048, 4094}));
  EXPECT_EQ(choose_contexts({}, 100, 2, left_out), (List{98}));
  EXPECT_EQ(choose_contexts({64, 16, 64, 4094}, 4096, 2, left_out), (List{16, 64, 4094}));
  EXPECT_EQ(left_out, std::vector<std::string>{}) << "nothing that was asked for";
}

TEST(SpeedBench, AContextThatWasAskedForAndIsNotMeasuredIsNamed) {
  using List = std::vector<int64_t>;
  std::vector<std::string> left_out;
  EXPECT_EQ(choose_contexts({64, 100000, 16, 4095}, 4096, 2, left_out), (List{16, 64}));
  ASSERT_EQ(left_out.size(), 2u);
  EXPECT_NE(left_out[0].find("4095"), std::string::npos) << left_out[0];
  EXPECT_NE(left_out[1].find("100000"), std::string::npos) << left_out[1];
  left_out.clear();
  EXPECT_EQ(choose_contexts({4095, 4096}, 4096, 2, left_out), (List{4094}));
  ASSERT_EQ(left_out.size(), 2u);
  EXPECT_NE(left_out[1].find("4094 are measured instead"), std::string::npos) << left_out[1];
}

TEST(SpeedBench, TheMedianIsTheMiddleOne) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 100}), 3);
  EXPECT_EQ(median({4, 1, 2, 100}), 3);
}

TEST(SpeedBench, ARunCountsOnlyOnAQuietMachineBeforeAndAfter) {
  SpeedReport report;
  report.threads = 2;
  report.before = report.after = {10e9, 17e9};
  EXPECT_EQ(report.why_not(), "");
  report.after.all = 16.9e9;
  EXPECT_NE(report.why_not().find("1.69 x as fast as with one after the run"), std::string::npos) << report.why_not();
  std::swap(report.before, report.after);
  EXPECT_NE(report.why_not().find("before the run"), std::string::npos) << report.why_not();
  report.threads = 1;
  EXPECT_NE(report.why_not(), "");
}

TEST(SpeedBench, TheBoundOfSeveralTextsIsByBytes) {
  Together together;
  together.sequences = 8;
  together.bytes_single = 100, together.bytes_union = 200;  // eight times the tokens for twice the bytes
  together.single = {10}, together.all = {30};
  EXPECT_EQ(together.bound(), 4);
  EXPECT_EQ(together.speedup(), 3);
}

TEST(SpeedBench, ThePictureOfNothingAndOfOneContextIsStillOne) {
  SpeedReport report;
  EXPECT_NE(speed_plot(report, "a < b & c").find("a &lt; b &amp; c"), std::string::npos);
  SpeedPoint point;
  point.context = 512, point.prefill = {100}, point.decode = {20}, point.bytes.weights = 1000;
  report.points = {point}, report.reading = {1e5};
  const std::string picture = speed_plot(report, "one");
  EXPECT_EQ(picture.find("nan"), std::string::npos);
  EXPECT_EQ(picture.find("inf"), std::string::npos);
}

}  // namespace
}  // namespace evros::ops
