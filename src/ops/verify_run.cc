#include "ops/verify_run.h"

#include <algorithm>

#include "base/str.h"
#include "ops/verify_texts.h"

namespace evros::ops {

void VerifyRun::check(const std::string& name, const std::string& proves,
                      const std::function<Status(VerifyRow& row)>& body) {
  if (out_of_time()) {
    skip(name, proves, "the time was over");
    return;
  }
  VerifyRow row{name, proves, Outcome::passed, 0, ""};
  const Status status = body(row);
  if (!status.ok()) {
    row.outcome = Outcome::failed;
    if (row.note.empty()) row.note = status.error().message;
  } else if (row.outcome == Outcome::passed && row.cases == 0) {
    row.outcome = Outcome::not_checked;  // nothing was compared, which proves nothing
    if (row.note.empty()) row.note = "the time was over before the first comparison";
  }
  report_.rows.push_back(std::move(row));
  const auto done = static_cast<uint64_t>(1000 * std::min(1.0, seconds() / options_.budget_seconds));
  evros::report(progress_, done, 1000);
}

void VerifyRun::skip(const std::string& name, const std::string& proves, const std::string& why) {
  report_.rows.push_back({name, proves, Outcome::not_checked, 0, why});
}

void VerifyRun::compare(VerifyRow& row, const engine::Digests& seen, const engine::Digests& wanted,
                        const std::string& what) {
  CHECK(seen.owners.size() == wanted.owners.size());
  ++row.cases;
  if (report_.owners.empty()) {
    for (const auto& entry : wanted.owners) report_.owners.push_back({entry.owner, 0, 0});
  }
  for (size_t i = 0; i < seen.owners.size(); ++i) {
    ++report_.owners[i].compared;
    if (seen.owners[i].hex == wanted.owners[i].hex) {
      ++report_.owners[i].equal;
      continue;
    }
    row.outcome = Outcome::failed;
    if (row.note.empty()) row.note = cat(what, ": ", seen.owners[i].owner, " differs");
  }
}

Status VerifyRun::feed(engine::SessionId session, std::span<const int32_t> tokens, std::span<const int64_t> cuts) {
  for (const int64_t cut : cuts) {
    const engine::ChunkRow row{session, tokens.first(static_cast<size_t>(cut))};
    EVROS_ASSIGN(const auto statuses, engine_->run_chunk({&row, 1}));
    EVROS_TRY(statuses[0]);
    tokens = tokens.subspan(static_cast<size_t>(cut));
  }
  CHECK(tokens.empty());
  return {};
}

Result<engine::Digests> VerifyRun::solo(std::span<const int32_t> tokens, std::span<const int64_t> cuts) {
  const Scoped session(*engine_, engine_->open());
  EVROS_TRY(session.status());
  EVROS_TRY(feed(session.id(), tokens, cuts));
  return engine_->digests(session.id());
}

Result<engine::Digests> VerifyRun::solo(std::span<const int32_t> tokens) {
  return solo(tokens, repeated_cuts({engine_->info().plan.pass.rows}, static_cast<int64_t>(tokens.size())));
}

}  // namespace evros::ops
