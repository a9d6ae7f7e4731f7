// Engine::load with every allocation, transfer and read failing: a clean error that says what, and nothing held
// afterwards.
#include "sim/bench_testing.h"

namespace evros::sim {
namespace {

struct Loading {
  Faults faults;
  Held held;
  FaultyIo io{io::real_io(), faults, &held};

  Result<std::unique_ptr<engine::Engine>> load() {
    engine::EngineOptions options = small_options();
    options.sessions = 2;
    std::unique_ptr<device::Device> device = faulty_host(faults, held);
    const std::string path = micro_model();
    const MemoryFaults memory(faults);
    return engine::Engine::load(io, std::move(device), path, options);
  }
};

/// Every occurrence of `kind` in a load, and the code it has to end with.
void fail_each(FaultKind kind, Code code, std::string_view named) {
  Loading loading;
  loading.faults.count();
  ASSERT_TRUE(loading.load().ok());
  const uint64_t count = loading.faults.occurrences(kind);
  ASSERT_GT(count, 0u) << fault_name(kind);
  for (uint64_t at = 0; at < count; ++at) {
    loading.faults.arm({.kind = kind, .at = at});
    auto engine = loading.load();
    loading.faults.disarm();
    ASSERT_EQ(loading.faults.fired(), 1u);
    ASSERT_FALSE(engine.ok()) << fault_name(kind) << ' ' << at << " of " << count;
    EXPECT_EQ(code_name(engine.error().code), std::string(code_name(code))) << engine.error().message;
    EXPECT_NE(engine.error().message.find(named), std::string::npos) << engine.error().message;
    EXPECT_EQ(loading.held.buffers, 0) << fault_name(kind) << ' ' << at;
    EXPECT_EQ(loading.held.files, 0) << fault_name(kind) << ' ' << at;
  }
  EXPECT_TRUE(loading.load().ok()) << "afterwards";
}

TEST(LoadFaults, ARefusedAllocationOfTheDeviceNamesWhatItWasFor) {
  fail_each(FaultKind::allocate, Code::out_of_memory, " for ");
}
TEST(LoadFaults, AFailedUploadIsAnErrorOfTheDevice) { fail_each(FaultKind::upload, Code::device, "upload"); }
TEST(LoadFaults, AFileThatCannotBeOpenedIsNamed) { fail_each(FaultKind::open, Code::io, micro_model()); }
TEST(LoadFaults, AFailedReadNamesTheFile) { fail_each(FaultKind::read_error, Code::io, micro_model()); }
TEST(LoadFaults, AShortReadNamesTheFile) { fail_each(FaultKind::read_short, Code::bad_file, micro_model()); }

TEST(LoadFaults, HostMemoryThatRunsOutAtAnyAllocationIsAnErrorAndNothingIsHeld) {
  Loading loading;
  loading.faults.count();
  ASSERT_TRUE(loading.load().ok());
  const uint64_t count = loading.faults.occurrences(FaultKind::host_memory);
  ASSERT_GT(count, 1000u);
  uint64_t refused = 0;
  for (uint64_t at = 0; at < count; at += at < 2000 ? 1 : 37) {  // the rest is one tensor like the other
    loading.faults.arm({.kind = FaultKind::host_memory, .at = at});
    auto engine = loading.load();
    loading.faults.disarm();
    if (engine.ok()) continue;  // an allocation that has another way
    ++refused;
    EXPECT_EQ(engine.error().code, Code::out_of_memory) << at << ": " << engine.error().message;
    EXPECT_EQ(loading.held.buffers, 0) << at;
    EXPECT_EQ(loading.held.files, 0) << at;
  }
  EXPECT_GT(refused, 900u);
}

TEST(LoadFaults, ALateReadChangesNothing) {
  Loading loading;
  loading.faults.arm({.kind = FaultKind::read_late, .persistent = true});
  EXPECT_TRUE(loading.load().ok());
  EXPECT_GT(loading.faults.fired(), 50u);
}

}  // namespace
}  // namespace evros::sim
