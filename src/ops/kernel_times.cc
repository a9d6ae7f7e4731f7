#include "ops/kernel_times.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace evros::ops {

using kernels::Batch;
using kernels::Kernels;

// Every entry of Kernels once.
// clang-format off
#define EVROS_ENTRIES(X) \
  X(embed) X(quantize) X(matmul) X(rms_norm) X(rope) X(swiglu) X(keep_last) X(gather_last) X(check_finite) \
  X(hc_low) X(hc_mix) X(hc_write) X(gdn_conv) X(gdn_qk_norm) X(gdn_gates) X(gdn_delta) X(gdn_out_norm) \
  X(store_rows) X(index_store) X(qsa_select) X(attention) X(head_gate) X(router) X(experts) X(shared_add) \
  X(keep_routes) X(ple_rows) X(ple_gate) X(ple_conv)
// clang-format on

namespace {

TimedDevice* g_timed = nullptr;

enum Index : size_t {
#define EVROS_INDEX(entry) at_##entry,
  EVROS_ENTRIES(EVROS_INDEX) count
#undef EVROS_INDEX
};

constexpr std::array<const char*, count> kNames{
#define EVROS_NAME(entry) #entry,
    EVROS_ENTRIES(EVROS_NAME)
#undef EVROS_NAME
};
static_assert(sizeof(Kernels) == (count + 1) * sizeof(void*), "an entry is missing in EVROS_ENTRIES");

}  // namespace

struct TimedEntry {
  /// Runs an entry of the real table as number `index`.
  template <size_t index, typename Args>
  static void run(void (*entry)(device::Queue&, const Batch&, const Args&), device::Queue& queue, const Batch& batch,
                  const Args& args) {
    TimedDevice& timed = *g_timed;
    if (!timed.measuring_) return entry(queue, batch, args);
    static_cast<void>(timed.inner().finish());  // a failure surfaces at the caller's own finish()
    const uint64_t began = timed.clock_.now_ns();
    entry(queue, batch, args);
    static_cast<void>(timed.inner().finish());
    timed.times_[index].ns += timed.clock_.now_ns() - began;
    ++timed.times_[index].calls;
  }

  template <size_t index, auto entry>
  struct Of;
  template <size_t index, typename Args, void (*Kernels::*entry)(device::Queue&, const Batch&, const Args&)>
  struct Of<index, entry> {
    static void call(device::Queue& queue, const Batch& batch, const Args& args) {
      run<index>(g_timed->table_.*entry, queue, batch, args);
    }
  };

  static const Kernels& table(const char* name) {
    static Kernels made;
    made.name = name;
#define EVROS_SET(entry) made.entry = Of<at_##entry, &Kernels::entry>::call;
    EVROS_ENTRIES(EVROS_SET)
#undef EVROS_SET
    return made;
  }
};

TimedDevice::TimedDevice(std::unique_ptr<device::Device> inner, const Kernels& table, io::Io& clock)
    : ForwardingDevice(std::move(inner)), table_(table), clock_(clock), times_(count) {
  CHECK(g_timed == nullptr);
  g_timed = this;
  for (size_t i = 0; i < count; ++i) times_[i].name = kNames[i];
}

TimedDevice::~TimedDevice() { g_timed = nullptr; }

const Kernels* TimedDevice::kernels() const { return &TimedEntry::table(table_.name); }

std::vector<KernelTime> TimedDevice::times() const {
  std::vector<KernelTime> all;
  for (const KernelTime& time : times_) {
    if (time.calls > 0) all.push_back(time);
  }
  std::stable_sort(all.begin(), all.end(), [](const KernelTime& a, const KernelTime& b) { return a.ns > b.ns; });
  return all;
}

}  // namespace evros::ops
