#include "ops/kernel_times.h"

#include <algorithm>

#include "base/check.h"

namespace evros::ops {

using kernels::Batch;
using kernels::Kernels;

namespace {

TimedDevice* g_timed = nullptr;

}  // namespace

struct TimedEntry {
  /// Runs an entry of the real table as number `index`.
  template <size_t index, typename Args>
  static void run(void (*entry)(device::Queue&, const Batch&, const Args&), device::Queue& queue, const Batch& batch,
                  const Args& args) {
    TimedDevice& timed = *g_timed;
    if (!timed.measuring_) return entry(queue, batch, args);
    static_cast<void>(timed.inner_->finish());  // a failure surfaces at the caller's own finish()
    const uint64_t began = timed.clock_.now_ns();
    entry(queue, batch, args);
    static_cast<void>(timed.inner_->finish());
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

  static void name(std::array<KernelTime, TimedDevice::kEntries>& times) {
    constexpr const char* kNames[] = {"embed", "quantize", "matmul", "rms_norm", "rope", "swiglu", "keep_last", "gather_last", "check_finite", "hc_low", "hc_mix", "hc_write", "gdn_conv", "gdn_qk_norm", "gdn_gates", "gdn_delta", "gdn_out_norm", "store_rows", "index_store", "qsa_select", "attention", "head_gate", "router", "experts", "shared_add", "keep_routes", "ple_rows", "ple_gate", "ple_conv"};
    static_assert(std::size(kNames) == TimedDevice::kEntries);
    for (size_t i = 0; i < times.size(); ++i) times[i].name = kNames[i];
  }

  static const Kernels& table(const char* name) {
    static Kernels made;
    made.name = name;
    made.embed = Of<0, &Kernels::embed>::call;
    made.quantize = Of<1, &Kernels::quantize>::call;
    made.matmul = Of<2, &Kernels::matmul>::call;
    made.rms_norm = Of<3, &Kernels::rms_norm>::call;
    made.rope = Of<4, &Kernels::rope>::call;
    made.swiglu = Of<5, &Kernels::swiglu>::call;
    made.keep_last = Of<6, &Kernels::keep_last>::call;
    made.gather_last = Of<7, &Kernels::gather_last>::call;
    made.check_finite = Of<8, &Kernels::check_finite>::call;
    made.hc_low = Of<9, &Kernels::hc_low>::call;
    made.hc_mix = Of<10, &Kernels::hc_mix>::call;
    made.hc_write = Of<11, &Kernels::hc_write>::call;
    made.gdn_conv = Of<12, &Kernels::gdn_conv>::call;
    made.gdn_qk_norm = Of<13, &Kernels::gdn_qk_norm>::call;
    made.gdn_gates = Of<14, &Kernels::gdn_gates>::call;
    made.gdn_delta = Of<15, &Kernels::gdn_delta>::call;
    made.gdn_out_norm = Of<16, &Kernels::gdn_out_norm>::call;
    made.store_rows = Of<17, &Kernels::store_rows>::call;
    made.index_store = Of<18, &Kernels::index_store>::call;
    made.qsa_select = Of<19, &Kernels::qsa_select>::call;
    made.attention = Of<20, &Kernels::attention>::call;
    made.head_gate = Of<21, &Kernels::head_gate>::call;
    made.router = Of<22, &Kernels::router>::call;
    made.experts = Of<23, &Kernels::experts>::call;
    made.shared_add = Of<24, &Kernels::shared_add>::call;
    made.keep_routes = Of<25, &Kernels::keep_routes>::call;
    made.ple_rows = Of<26, &Kernels::ple_rows>::call;
    made.ple_gate = Of<27, &Kernels::ple_gate>::call;
    made.ple_conv = Of<28, &Kernels::ple_conv>::call;
    return made;
  }
};

TimedDevice::TimedDevice(std::unique_ptr<device::Device> inner, const Kernels& table, io::Io& clock)
    : inner_(std::move(inner)), table_(table), clock_(clock) {
  CHECK(g_timed == nullptr);
  g_timed = this;
  TimedEntry::name(times_);
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
