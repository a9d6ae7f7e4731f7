#include "sim/faulty_device.h"

#include <algorithm>

#include "base/str.h"

namespace evros::sim {
namespace {

// 0x3F3F3F3F is 0.75 as a float: finite and harmless, so that no finite check saves a result that was never computed.
constexpr uint8_t kRubbish = 0x3F;
constexpr uint8_t kGone = 0xFF;  // NaN in every type: nobody takes it for what was there

Error injected(FaultKind kind) { return {Code::device, cat("injected: ", fault_name(kind), " failed")}; }

}  // namespace

Status FaultyDevice::alive() {
  if (!gone_ && !faults_.fires(FaultKind::loss)) return {};
  if (!gone_) {
    gone_ = true;
    const std::lock_guard lock(mutex_);
    for (const auto& [data, memory] : memory_) EVROS_TRY(inner_->fill(data, kGone, memory.bytes()));
  }
  return Error{Code::device, cat(name(), " is lost: injected")};
}

Result<device::Buffer> FaultyDevice::allocate(uint64_t bytes, std::string_view what) {
  EVROS_TRY(alive());
  if (faults_.fires(FaultKind::allocate)) {
    return Error{Code::out_of_memory, cat("injected: the device has no ", bytes, " bytes of memory for ", what)};
  }
  EVROS_ASSIGN(device::Buffer memory, inner_->allocate(bytes, what));
  std::byte* data = memory.data();
  const std::lock_guard lock(mutex_);
  memory_.emplace(data, std::move(memory));
  if (held_ != nullptr) ++held_->buffers;
  return device::Buffer(this, data, bytes);
}

void FaultyDevice::free(std::byte* data, uint64_t) noexcept {
  const std::lock_guard lock(mutex_);
  CHECK(memory_.erase(data) == 1);
  if (held_ != nullptr) --held_->buffers;
}

Status FaultyDevice::upload(std::byte* to, std::span<const std::byte> from) {
  EVROS_TRY(alive());
  if (!faults_.fires(FaultKind::upload)) return inner_->upload(to, from);
  EVROS_TRY(inner_->fill(to, kRubbish, from.size() / 2));
  return injected(FaultKind::upload);
}

Status FaultyDevice::download(std::span<std::byte> to, const std::byte* from) {
  EVROS_TRY(alive());
  if (!faults_.fires(FaultKind::download)) return inner_->download(to, from);
  std::fill_n(to.begin(), to.size() / 2, std::byte{kRubbish});
  return injected(FaultKind::download);
}

Status FaultyDevice::copy(std::byte* to, const std::byte* from, uint64_t bytes) {
  EVROS_TRY(alive());
  if (!faults_.fires(FaultKind::copy)) return inner_->copy(to, from, bytes);
  EVROS_TRY(inner_->fill(to, kRubbish, bytes / 2));
  return injected(FaultKind::copy);
}

Status FaultyDevice::fill(std::byte* to, uint8_t value, uint64_t bytes) {
  EVROS_TRY(alive());
  if (!faults_.fires(FaultKind::fill)) return inner_->fill(to, value, bytes);
  EVROS_TRY(inner_->fill(to, kRubbish, bytes / 2));
  return injected(FaultKind::fill);
}

Status FaultyDevice::launch(const device::StageInfo& stage, const std::function<void(device::Queue&)>& body) {
  EVROS_TRY(alive());
  if (faults_.fires(FaultKind::launch)) {
    return Error{Code::device, cat("injected: the launch of ", stage.name, " was refused")};
  }
  EVROS_TRY(inner_->launch(stage, body));
  return after_launch(stage);
}

Status FaultyDevice::after_launch(const device::StageInfo& stage) {
  if (faults_.fires(FaultKind::completion)) {
    untold_ = true;
    for (const device::StageOutput& block : stage.outputs) {
      for (int64_t row = 0; row < block.rows; ++row) {
        EVROS_TRY(inner_->fill(reinterpret_cast<std::byte*>(block.data + row * block.stride), kRubbish,
                               static_cast<uint64_t>(block.width) * sizeof(float)));
      }
    }
  }
  for (const device::StageOutput& block : stage.outputs) {
    if (!faults_.fires(FaultKind::non_finite) || block.rows == 0 || block.width == 0) continue;
    const FaultPlan& plan = faults_.plan();
    float* at = plan.last_row ? block.data + (block.rows - 1) * block.stride + block.width - 1 : block.data;
    EVROS_TRY(inner_->upload(reinterpret_cast<std::byte*>(at), std::as_bytes(std::span(&plan.value, 1))));
  }
  if (faults_.fires(FaultKind::status_word)) EVROS_TRY(set_status(stage.status));
  if (faults_.fires(FaultKind::cancel)) faults_.cancel_flag() = true;
  return {};
}

Status FaultyDevice::set_status(std::span<uint32_t> words) {
  CHECK(!words.empty());
  const FaultPlan& plan = faults_.plan();
  auto* at = reinterpret_cast<std::byte*>(&words[plan.last_row ? words.size() - 1 : 0]);
  uint32_t word = 0;
  EVROS_TRY(inner_->download(std::as_writable_bytes(std::span(&word, 1)), at));
  word |= plan.word;
  return inner_->upload(at, std::as_bytes(std::span(&word, 1)));
}

Status FaultyDevice::finish() {
  EVROS_TRY(alive());
  EVROS_TRY(inner_->finish());
  if (!std::exchange(untold_, false)) return {};
  return injected(FaultKind::completion);
}

}  // namespace evros::sim
