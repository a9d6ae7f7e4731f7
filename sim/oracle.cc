#include "sim/oracle.h"

#include <algorithm>
#include <cstring>

#include "base/str.h"

namespace evros::sim {
namespace {

constexpr size_t kFindingsKept = 20;

class Reader {
 public:
  Reader(const engine::Engine& engine, const state::View& view) : engine_(engine), view_(view) {}

  Status bank(const state::BankSlice& slice, TreeDigest& digest) {
    return add(view_.bank() + slice.offset, slice.bytes, digest);
  }

  Status part(const state::PagePart& part, TreeDigest& digest) {
    const int64_t rows = view_.frontier() / part.tokens_per_row;
    for (int64_t row = 0; row < rows; row += part.rows_per_page) {
      const auto here = static_cast<uint64_t>(std::min<int64_t>(part.rows_per_page, rows - row));
      EVROS_TRY(add(view_.pages()[row / part.rows_per_page] + part.offset, here * part.row_bytes, digest));
    }
    return {};
  }

 private:
  Status add(const std::byte* from, uint64_t bytes, TreeDigest& digest) {
    bytes_.resize(bytes);
    EVROS_TRY(engine_.device().download(bytes_, from));
    digest.update(bytes_);
    return {};
  }
  const engine::Engine& engine_;
  const state::View& view_;
  std::vector<std::byte> bytes_;
};

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

bool from_device(FaultKind kind) {
  switch (kind) {
    case FaultKind::upload:
    case FaultKind::download:
    case FaultKind::copy:
    case FaultKind::fill:
    case FaultKind::launch:
    case FaultKind::completion:
      return true;
    default:
      return false;
  }
}

bool of_one_row(FaultKind kind) { return kind == FaultKind::status_word || kind == FaultKind::non_finite; }

std::optional<Code> expected_code(FaultKind kind) {
  if (from_device(kind)) return Code::device;
  switch (kind) {
    case FaultKind::allocate:
    case FaultKind::host_memory:
      return Code::out_of_memory;
    case FaultKind::non_finite:
      return Code::non_finite;
    case FaultKind::cancel:
    case FaultKind::observe:
      return Code::cancelled;
    case FaultKind::status_word:
    case FaultKind::read_corrupt:
      return std::nullopt;
    case FaultKind::read_short:
      return Code::bad_file;
    default:
      return Code::io;
  }
}

}  // namespace

Result<Digests> digests_of(const engine::Engine& engine, engine::SessionId session) {
  EVROS_ASSIGN(const state::View view, engine.store().view(session));
  const state::Layout& layout = engine.store().layout();
  std::array<TreeDigest, state::kOwnerCount> trees;
  Reader reader(engine, view);
  for (const state::BankSlice& slice : layout.bank)
    EVROS_TRY(reader.bank(slice, trees[static_cast<size_t>(slice.owner)]));
  for (const state::PagePart& part : layout.page) EVROS_TRY(reader.part(part, trees[static_cast<size_t>(part.owner)]));
  std::vector<int32_t> tokens(static_cast<size_t>(view.frontier()));
  view.tokens(0, tokens);
  trees[static_cast<size_t>(state::Owner::tokens)].update(std::as_bytes(std::span(tokens)));
  const int64_t frontier = view.frontier();
  trees[static_cast<size_t>(state::Owner::frontier)].update(std::as_bytes(std::span(&frontier, 1)));
  Digests digests;
  for (size_t i = 0; i < digests.size(); ++i) digests[i] = trees[i].root();
  return digests;
}

void Oracle::finding(std::string what) {
  clear_ = false;
  if (findings_.size() < kFindingsKept) findings_.push_back(cat(about_, ": ", what));
}

World Oracle::forked() {
  World world{start_.engine, start_.faults, {}, start_.buffer};
  for (const engine::SessionId session : start_.sessions) {
    auto fork = world.engine->fork(session);
    CHECK(fork.ok());
    world.sessions.push_back(*fork);
  }
  return world;
}

void Oracle::close(World& world) {
  for (const engine::SessionId session : world.sessions) {
    if (!world.engine->close(session).ok()) finding("a session cannot be closed");
  }
  world.sessions.clear();
}

Oracle::Snapshot Oracle::look(const World& world) {
  Snapshot seen;
  for (const engine::SessionId session : world.sessions) {
    auto digests = digests_of(*world.engine, session);
    CHECK(digests.ok());
    seen.sessions.push_back(*digests);
  }
  seen.buffer = world.buffer;
  return seen;
}

bool Oracle::learn(const Operation& operation) {
  about_ = operation.name;
  start_.faults->disarm();
  original_ = look(start_);
  bool good = true;
  for (int warm = 0; good && warm < 2;
       ++warm) {  // the second run counts: vectors have grown by then, as in every trial
    World world = forked();
    if (operation.prepare) operation.prepare(world);
    start_.faults->count();
    const auto statuses = operation.run(world, operation.which);
    start_.faults->disarm();
    good = statuses.ok() && std::all_of(statuses->begin(), statuses->end(), [](const Status& s) { return s.ok(); });
    if (!good) finding(cat("fails without a fault: ", statuses.ok() ? "one sequence" : statuses.error().message));
    clean_ = look(world);
    close(world);
  }
  for (int kind = 0; kind < kFaultKinds; ++kind) {
    counts_[static_cast<size_t>(kind)] = start_.faults->occurrences(static_cast<FaultKind>(kind));
  }
  return good;
}

Oracle::Attempt Oracle::attempt(const Operation& operation, const FaultPlan& plan, World& world) {
  if (operation.prepare) operation.prepare(world);
  start_.faults->arm(plan);
  const auto statuses = operation.run(world, operation.which);
  start_.faults->disarm();
  Attempt made;
  made.failed.assign(world.sessions.size(), false);
  for (size_t i = 0; i < operation.which.size(); ++i) {
    const Error* error = nullptr;
    if (!statuses.ok())
      error = &statuses.error();
    else if (i < statuses->size() && !(*statuses)[i].ok())
      error = &(*statuses)[i].error();
    (error != nullptr ? made.any_failed : made.any_passed) = true;
    if (error == nullptr) continue;
    made.failed[operation.which[i]] = true;
    made.code = error->code;
    if (error->message.empty()) finding("its error says nothing");
  }
  return made;
}

void Oracle::expect_outcome(const Operation& operation, const FaultPlan& plan, const Attempt& made) {
  const bool either = plan.kind == FaultKind::host_memory || plan.kind == FaultKind::remove ||
                      (plan.kind == FaultKind::read_corrupt && !plan.persistent);
  if (either) {
    // Some allocations have another way, a file that cannot be removed is not in the way of what was asked for, and what is
    // read a second time before it is used may be wrong the first time. The images still have to be right.
  } else if (plan.kind == FaultKind::read_late || (operation.retried && !plan.persistent && from_device(plan.kind))) {
    if (made.any_failed) finding("was to be absorbed and was seen by the caller");
  } else if (!made.any_failed) {
    finding("was to be reported, and the operation claims success");
  }
  if (made.any_failed && expected_code(plan.kind) && made.code != expected_code(plan.kind)) {
    finding(cat("is reported as ", code_name(*made.code), "; wanted ", code_name(*expected_code(plan.kind))));
  }
  if (!of_one_row(plan.kind) || operation.which.size() < 2 || plan.persistent) return;
  const size_t victim = plan.last_row ? operation.which.back() : operation.which.front();
  for (const size_t i : operation.which) {
    if (made.failed[i] != (i == victim))
      finding(cat("session ", i, i == victim ? " should have failed" : " should not have"));
  }
}

// Compares the sessions whose entry in `only` is `value` (all without `only`).
void Oracle::expect_images(const char* when, const Snapshot& seen, const Snapshot& wanted,
                           const std::vector<bool>* only, bool value) {
  for (size_t s = 0; s < std::min(seen.sessions.size(), wanted.sessions.size()); ++s) {
    if (only != nullptr && s < only->size() && (*only)[s] != value) continue;
    for (size_t owner = 0; owner < seen.sessions[s].size(); ++owner) {
      if (seen.sessions[s][owner] == wanted.sessions[s][owner]) continue;
      finding(cat(when, ", session ", s, ": ", state::owner_name(static_cast<state::Owner>(owner)), " has digest ",
                  hex(seen.sessions[s][owner]), "; wanted ", hex(wanted.sessions[s][owner])));
    }
  }
}

void Oracle::expect_usage(const char* when, const state::Usage& before) {
  const state::Usage now = start_.engine->store().usage();
  if (now.slots != before.slots || now.banks != before.banks || now.pages != before.pages ||
      now.records != before.records) {
    finding(cat(when, ", in use: ", now.slots, " slots, ", now.banks, " banks, ", now.pages, " pages, ", now.records,
                " records; before: ", before.slots, ", ", before.banks, ", ", before.pages, ", ", before.records));
  }
  start_.engine->store().check_consistency();
}

void Oracle::trial(const Operation& operation, const FaultPlan& plan) {
  about_ = cat(operation.name, ", ", describe(plan));
  clear_ = true;
  const state::Usage outside = start_.engine->store().usage();
  World world = forked();
  const Snapshot before = look(world);
  const state::Usage usage = start_.engine->store().usage();

  const Attempt made = attempt(operation, plan, world);
  if (start_.faults->fired() == 0) finding("never struck");
  expect_outcome(operation, plan, made);
  const Snapshot after = look(world);
  expect_images("after the failure", after, before, &made.failed, true);
  if (!made.any_passed) {
    expect_images("after the failure", after, before, nullptr, true);
    if (after.sessions.size() != before.sessions.size()) finding("a failed operation left a session behind");
    if (!same(after.buffer, before.buffer)) finding("a failed operation wrote to the caller's buffer");
    expect_usage("after the failure", usage);
  }

  std::vector<size_t> again;
  for (const size_t i : operation.which) {
    if (made.failed[i]) again.push_back(i);
  }
  if (!again.empty()) {
    const auto statuses = operation.run(world, again);
    const bool good =
        statuses.ok() && std::all_of(statuses->begin(), statuses->end(), [](const Status& s) { return s.ok(); });
    if (!good)
      finding(cat("the clean run afterwards fails: ", statuses.ok() ? "one sequence" : statuses.error().message));
  }
  const Snapshot end = look(world);
  expect_images("after the clean run", end, clean_, nullptr, true);
  if (end.sessions.size() != clean_.sessions.size())
    finding("the clean run afterwards gives another number of sessions");
  if (!same(end.buffer, clean_.buffer)) finding("the clean run afterwards gives another buffer");
  close(world);
  expect_usage("at the end", outside);
  expect_images("the sessions forked from", look(start_), original_, nullptr, true);

  ++totals_.injected;
  totals_.unchanged += clear_ ? 1 : 0;
  totals_.absorbed += clear_ && !made.any_failed ? 1 : 0;
}

void Oracle::exhaust(const Operation& operation, FaultPlan plan, uint64_t stride) {
  CHECK(stride > 0);
  for (plan.at = 0; plan.at < occurrences(plan.kind); plan.at += stride) {
    plan.persistent = false;
    trial(operation, plan);
    if (of_one_row(plan.kind) || plan.kind == FaultKind::cancel || plan.kind == FaultKind::observe) continue;
    plan.persistent = true;
    trial(operation, plan);
  }
}

std::vector<FaultPlan> chunk_faults() {
  std::vector<FaultPlan> plans;
  for (const FaultKind kind : {FaultKind::upload, FaultKind::download, FaultKind::copy, FaultKind::fill,
                               FaultKind::launch, FaultKind::completion, FaultKind::cancel, FaultKind::observe}) {
    plans.push_back({.kind = kind});
  }
  for (const bool last : {false, true}) {
    for (const uint32_t word : {1u, 0x80000000u})
      plans.push_back({.kind = FaultKind::status_word, .last_row = last, .word = word});
    const float infinity = std::numeric_limits<float>::infinity();
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
      plans.push_back({.kind = FaultKind::non_finite, .last_row = last, .value = value});
    }
  }
  return plans;
}

}  // namespace evros::sim
