// The start-up self-test: a few kernels on fixed inputs against digests that stand in the source. A compiler that contracts,
// a machine with another rounding mode or a broken instruction set gives other bits and is refused before it can write
// a wrong history. Takes a millisecond or two.
#pragma once

#include "base/result.h"
#include "device/device.h"
#include "kernels/kernels.h"

namespace evros::engine {

/// Ok, or Code::unsupported naming the kernel whose bits are wrong. Runs on the device that the table is for.
Status self_check(const kernels::Kernels& kernels, device::Device& device);

}  // namespace evros::engine
