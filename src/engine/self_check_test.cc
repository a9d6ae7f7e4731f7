#include "engine/self_check.h"

#include <gtest/gtest.h>

#include <cmath>

namespace evros::engine {
namespace {

TEST(SelfTest, EveryTableOfThisMachinePasses) {
  const auto device = device::make_host_device(2);
  for (const kernels::Kernels* table : kernels::host_tables()) {
    const Status status = self_check(*table, *device);
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
}

// The smallest change that a wrong build would make: one unit in the last place of one output.
TEST(SelfTest, OneBitMakesItRefuse) {
  static void (*real)(device::Queue&, const kernels::Batch&, const kernels::RmsNormArgs&) =
      kernels::ref_kernels().rms_norm;
  kernels::Kernels wrong = kernels::ref_kernels();
  wrong.rms_norm = [](device::Queue& queue, const kernels::Batch& batch, const kernels::RmsNormArgs& a) {
    real(queue, batch, a);
    a.y[7] = std::nextafter(a.y[7], 10.0f);
  };
  const auto device = device::make_host_device(1);
  const Status status = self_check(wrong, *device);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::unsupported);
  EXPECT_NE(status.error().message.find("rms_norm"), std::string::npos);
}

}  // namespace
}  // namespace evros::engine
