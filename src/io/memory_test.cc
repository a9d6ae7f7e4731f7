// What the process may use, from the text files of kernels: written here, and this machine's own.
#include "io/memory.h"

#include <gtest/gtest.h>

#include "base/str.h"
#include "io/memory_io.h"

namespace evros::io {
namespace {

constexpr uint64_t kMiB = 1u << 20;

/// A machine with 8 GiB available and a process that holds 30 MiB, 10 of them of files.
void machine(MemoryIo& io) {
  io.put("/proc/meminfo",
         "MemTotal: 16777216 kB\nMemFree: 1000 kB\nMemAvailable:    8388608 kB\n"
         "CommitLimit:    4194304 kB\nCommitted_AS:   1048576 kB\n");
  io.put("/proc/self/status",
         "Name:\tevros\nVmSize:\t  102400 kB\nVmRSS:\t   30720 kB\nRssAnon:\t   20480 kB\n"
         "RssFile:\t   10240 kB\nRssShmem:\t 0 kB\nVmData:\t 51200 kB\nThreads:\t3\n");
  io.put("/proc/self/limits",
         "Limit                     Soft Limit           Hard Limit           Units     \n"
         "Max data size             unlimited            unlimited            bytes     \n"
         "Max address space         unlimited            unlimited            bytes     \n");
}

uint64_t smallest(Io& io, uint64_t mapped = 0) {
  const MemoryMeasure measure = measure_memory(io);
  const MemoryLimit* limit = measure.smallest(mapped);
  return limit == nullptr ? 0 : measure.left(*limit, mapped) / kMiB;
}

TEST(Memory, WithoutLimitsItIsWhatTheMachineHasLeftAndTheProcessHolds) {
  MemoryIo io;
  EXPECT_EQ(measure_memory(io).smallest(0), nullptr);
  machine(io);
  EXPECT_EQ(smallest(io), 8192u + 20);
  EXPECT_EQ(measure_memory(io).own_bytes, 30 * kMiB);
  EXPECT_EQ(measure_memory(io).threads, 3u);
}

TEST(Memory, OfNestedGroupsTheOneThatLeavesLeastCounts) {
  MemoryIo io;
  machine(io);
  io.put("/proc/self/cgroup", "0::/work.slice/inner\n");
  io.put("/proc/self/mountinfo",
         "22 1 0:5 / /proc rw - proc proc rw\n30 23 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n");
  const std::string outer = "/sys/fs/cgroup/work.slice/", inner = outer + "inner/";
  io.put(inner + "memory.max", "max\n");
  EXPECT_EQ(smallest(io), 8192u + 20);
  // 2048 MiB, of which 1524 are used; 500 of these only cache files. 1024 left, and what the process holds.
  io.put(outer + "memory.max", cat(2048 * kMiB, "\n"));
  io.put(outer + "memory.current", cat(1524 * kMiB, "\n"));
  io.put(outer + "memory.stat", cat("anon 7\ninactive_anon 99999999\nactive_anon 5\ninactive_file ", 300 * kMiB,
                                    "\nactive_file ", 200 * kMiB, "\nfile 0\n"));
  EXPECT_EQ(smallest(io), 1024u + 20);
  io.put(inner + "memory.max", cat(4096 * kMiB, "\n"));
  io.put(inner + "memory.current", cat(24 * kMiB, "\n"));
  EXPECT_EQ(smallest(io), 1024u + 20);
  io.put(inner + "memory.high", cat(124 * kMiB, "\n"));  // beyond it the kernel slows the process down
  EXPECT_EQ(smallest(io), 100u + 20);
  EXPECT_EQ(measure_memory(io).smallest(0)->name, "cgroup /work.slice/inner");
}

TEST(Memory, TheFirstVersionOfControlGroupsIsUnderstoodInAContainerToo) {
  MemoryIo io;
  machine(io);
  io.put("/proc/self/cgroup", "5:cpu,cpuacct:/\n4:hugetlb,memory:/docker/f00\n0::/\n");
  io.put("/proc/self/mountinfo",
         "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
         "35 31 0:32 /docker/f00 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  io.put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(smallest(io), 8192u + 20);
  io.put("/sys/fs/cgroup/memory/memory.limit_in_bytes", cat(512 * kMiB, "\n"));
  io.put("/sys/fs/cgroup/memory/memory.usage_in_bytes", cat(112 * kMiB, "\n"));
  io.put("/sys/fs/cgroup/memory/memory.stat",
         cat("active_file 1\ntotal_active_file ", 12 * kMiB, "\ntotal_inactive_file 0\n"));
  EXPECT_EQ(smallest(io), 412u + 20);
}

TEST(Memory, AGroupThatIsOverItsLimitLeavesNothing) {
  MemoryIo io;
  machine(io);
  io.put("/proc/self/cgroup", "0::/a\n");
  io.put("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  io.put("/sys/fs/cgroup/a/memory.max", cat(64 * kMiB, "\n"));
  io.put("/sys/fs/cgroup/a/memory.current", cat(65 * kMiB, "\n"));
  EXPECT_EQ(smallest(io), 20u);
}

TEST(Memory, LimitsOfTheShellCountWhatIsMappedToo) {
  MemoryIo io;
  machine(io);
  io.put("/proc/self/limits", cat("Max data size             unlimited            unlimited            bytes     \n"
                                  "Max address space         ",
                                  300 * kMiB, "            unlimited            bytes     \n"));
  EXPECT_EQ(smallest(io), 200u + 30);        // 100 MiB are mapped
  EXPECT_EQ(smallest(io, 16 * kMiB), 214u);  // thread stacks
  io.put("/proc/self/limits",
         cat("Max data size             ", 60 * kMiB, "            unlimited            bytes     \n"));
  EXPECT_EQ(smallest(io), 10u + 30);
}

TEST(Memory, AKernelThatPromisesNoMoreThanItHasIsBelieved) {
  MemoryIo io;
  machine(io);
  io.put("/proc/sys/vm/overcommit_memory", "2\n");
  EXPECT_EQ(smallest(io), 3072u + 30);
}

TEST(Memory, OfThisMachineThereIsMoreThanThisTestHoldsAndLessThanTheMachineHas) {
  const MemoryMeasure measure = measure_memory();
  const MemoryLimit* limit = measure.smallest(0);
  ASSERT_NE(limit, nullptr);
  const uint64_t total = number_after(read_kernel_file(real_io(), "/proc/meminfo", 4096), "MemTotal:") << 10;
  EXPECT_GT(measure.own_bytes, kMiB);
  EXPECT_LT(measure.own_bytes, limit->bytes);
  EXPECT_LT(limit->bytes, total);
}

TEST(Memory, FilesOfTheKernelAreReadToTheirEnd) {
  MemoryIo io;
  for (const size_t size : {0u, 1u, 4095u, 4096u, 4097u, 10000u}) {
    io.put("/proc/x", std::string(size, 'x'));
    EXPECT_EQ(read_kernel_file(io, "/proc/x", 16384).size(), size);
  }
  EXPECT_EQ(read_kernel_file(io, "/proc/x", 5000).size(), 5000u);
  EXPECT_EQ(read_kernel_file(io, "/proc/y", 5000), "");
}

}  // namespace
}  // namespace evros::io
