#include "sim/fault_plan.h"

#include "base/check.h"
#include "base/str.h"

namespace evros::sim {

std::string_view fault_name(FaultKind kind) {
  switch (kind) {
    case FaultKind::loss:
      return "loss";
    case FaultKind::allocate:
      return "allocate";
    case FaultKind::upload:
      return "upload";
    case FaultKind::download:
      return "download";
    case FaultKind::copy:
      return "copy";
    case FaultKind::fill:
      return "fill";
    case FaultKind::launch:
      return "launch";
    case FaultKind::completion:
      return "completion";
    case FaultKind::status_word:
      return "status_word";
    case FaultKind::non_finite:
      return "non_finite";
    case FaultKind::cancel:
      return "cancel";
    case FaultKind::observe:
      return "observe";
    case FaultKind::open:
      return "open";
    case FaultKind::read_error:
      return "read_error";
    case FaultKind::read_short:
      return "read_short";
    case FaultKind::read_late:
      return "read_late";
    case FaultKind::read_corrupt:
      return "read_corrupt";
    case FaultKind::create:
      return "create";
    case FaultKind::write:
      return "write";
    case FaultKind::truncate:
      return "truncate";
    case FaultKind::sync:
      return "sync";
    case FaultKind::rename:
      return "rename";
    case FaultKind::remove:
      return "remove";
    case FaultKind::sync_folder:
      return "sync_folder";
    case FaultKind::death:
      return "death";
    case FaultKind::host_memory:
      return "host_memory";
  }
  CHECK(false);
}

std::string describe(const FaultPlan& plan) {
  std::string text = cat(fault_name(plan.kind), " ", plan.at, plan.persistent ? " and all later" : "");
  if (plan.kind == FaultKind::non_finite) text += cat(" value ", plan.value);
  if (plan.kind == FaultKind::status_word) text += cat(" word ", plan.word);
  if (plan.last_row) text += " in the last row";
  return text;
}

void Faults::start(bool counting, bool armed) {
  armed_ = false;
  counting_ = false;
  for (auto& count : counts_) count = 0;
  fired_ = 0;
  cancel_ = false;
  armed_ = armed;
  counting_ = counting;
}

void Faults::arm(const FaultPlan& plan) {
  armed_ = false;
  plan_ = plan;
  start(true, true);
}

void Faults::count() { start(true, false); }

// Keeps the counts for the reader.
void Faults::disarm() {
  armed_ = false;
  counting_ = false;
  cancel_ = false;
}

bool Faults::fires(FaultKind kind) noexcept {
  if (!counting_.load()) return false;
  const uint64_t n = counts_[static_cast<size_t>(kind)].fetch_add(1);
  if (!armed_.load() || kind != plan_.kind || (plan_.persistent ? n < plan_.at : n != plan_.at)) return false;
  fired_.fetch_add(1);
  return true;
}

}  // namespace evros::sim
