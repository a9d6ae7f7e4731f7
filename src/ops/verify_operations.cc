// Operations on whole sequences: what was forked, rewound or restored goes on with the bits of one that never was, and a
// refused call changes nothing.
#include <algorithm>

#include "base/str.h"
#include "io/memory_io.h"
#include "ops/verify_run.h"

namespace evros::ops {
namespace {

std::span<const int32_t> head(const std::vector<int32_t>& text, size_t n) { return std::span(text).first(n); }

void check_fork(VerifyRun& run, const Texts& texts, const std::vector<engine::Digests>& wanted) {
  run.check("fork, then both go on", "S3 S4", [&](VerifyRow& row) -> Status {
    engine::Engine& engine = run.engine();
    const size_t half = texts[0].size() / 2;
    const Scoped first(engine, engine.open());
    EVROS_TRY(first.status());
    EVROS_TRY(engine.append(first.id(), head(texts[0], half)));
    const Scoped second(engine, engine.fork(first.id()));
    EVROS_TRY(second.status());
    std::vector<int32_t> other(head(texts[0], half).begin(), head(texts[0], half).end());
    const auto more = head(texts[1], std::min<size_t>(texts[1].size(), 9));
    other.insert(other.end(), more.begin(), more.end());
    EVROS_TRY(engine.append(second.id(), more));
    EVROS_TRY(engine.append(first.id(), std::span(texts[0]).subspan(half)));
    EVROS_ASSIGN(const auto seen_first, engine.digests(first.id()));
    EVROS_ASSIGN(const auto seen_second, engine.digests(second.id()));
    EVROS_ASSIGN(const auto wanted_second, run.solo(other));
    run.compare(row, seen_first, wanted[0], "the forked session");
    run.compare(row, seen_second, wanted_second, "the fork");
    return {};
  });
}

void check_rewind(VerifyRun& run, const Texts& texts, const std::vector<engine::Digests>& wanted) {
  run.check("rewind to any position, then go on", "S3", [&](VerifyRow& row) -> Status {
    engine::Engine& engine = run.engine();
    const size_t n = texts[0].size();
    const Scoped session(engine, engine.open());
    EVROS_TRY(session.status());
    EVROS_TRY(engine.append(session.id(), head(texts[0], n / 3)));
    EVROS_ASSIGN(const engine::CheckpointId checkpoint, engine.checkpoint(session.id()));
    EVROS_TRY(engine.append(session.id(), std::span(texts[0]).subspan(n / 3)));
    for (const size_t to : {n - 1, n / 2 + 1, n / 3, n / 4, size_t{1}}) {
      if (run.out_of_time()) break;
      EVROS_TRY(engine.rewind(session.id(), static_cast<int64_t>(to)));
      EVROS_ASSIGN(const auto seen, engine.digests(session.id()));
      EVROS_ASSIGN(const auto short_one, run.solo(head(texts[0], to)));
      run.compare(row, seen, short_one, cat("rewound to ", to));
      EVROS_TRY(engine.append(session.id(), std::span(texts[0]).subspan(to)));
      EVROS_ASSIGN(const auto again, engine.digests(session.id()));
      run.compare(row, again, wanted[0], cat("gone on from ", to));
    }
    static_cast<void>(engine.release(checkpoint).ok());  // it went with the history if a rewind passed it
    return {};
  });
}

void check_snapshot(VerifyRun& run, const Texts& texts, const std::vector<engine::Digests>& wanted) {
  run.check("snapshot, restore, then go on", "S3 S9", [&](VerifyRow& row) -> Status {
    engine::Engine& engine = run.engine();
    const size_t half = texts[0].size() / 2;
    io::MemoryIo files;
    const Scoped session(engine, engine.open());
    EVROS_TRY(session.status());
    EVROS_TRY(engine.append(session.id(), head(texts[0], half)));
    EVROS_TRY(engine.save(files, session.id(), "verify.snapshot", "attachment"));
    EVROS_ASSIGN(const auto restored, engine.restore(files, "verify.snapshot"));
    const Scoped second(engine, restored.session);
    EVROS_TRY(engine.append(second.id(), std::span(texts[0]).subspan(half)));
    EVROS_ASSIGN(const auto seen, engine.digests(second.id()));
    run.compare(row, seen, wanted[0], "the restored session");
    std::string damaged = files.get("verify.snapshot");
    damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 1);
    files.put("damaged.snapshot", damaged);
    ++row.cases;
    const Scoped none(engine, [&]() -> Result<engine::SessionId> {
      EVROS_ASSIGN(const auto wrong, engine.restore(files, "damaged.snapshot"));
      return wrong.session;
    }());
    if (none.status().ok()) return Error{Code::bad_file, "a snapshot with a damaged byte was accepted"};
    return {};
  });
}

void check_refusals(VerifyRun& run, const Texts& texts, const std::vector<engine::Digests>& wanted) {
  run.check("refused calls change nothing", "S2 S5", [&](VerifyRow& row) -> Status {
    engine::Engine& engine = run.engine();
    const Scoped session(engine, engine.open());
    EVROS_TRY(session.status());
    EVROS_TRY(engine.append(session.id(), texts[0]));
    const auto vocab = engine.model().hyper.vocab;
    const std::vector<int32_t> bad{1, vocab}, negative{-1}, none;
    const std::vector<int32_t> long_one(static_cast<size_t>(engine.info().plan.context) + 1 - texts[0].size(), 1);
    for (const auto* tokens : {&bad, &negative, &none, &long_one}) {
      if (engine.append(session.id(), *tokens).ok())
        return Error{Code::invalid_argument, "a call that must fail did not"};
      EVROS_ASSIGN(const auto seen, engine.digests(session.id()));
      run.compare(row, seen, wanted[0], "after a refused append");
    }
    engine::SessionId stale = session.id();
    ++stale.generation;
    ++row.cases;
    if (engine.append(stale, texts[1]).ok()) return Error{Code::stale, "an address of another generation was accepted"};
    EVROS_ASSIGN(const auto seen, engine.digests(session.id()));
    run.compare(row, seen, wanted[0], "after a stale address");
    return {};
  });
}

}  // namespace

void verify_operations(VerifyRun& run, const Texts& texts, const std::vector<engine::Digests>& wanted) {
  check_refusals(run, texts, wanted);
  check_fork(run, texts, wanted);
  check_snapshot(run, texts, wanted);
  check_rewind(run, texts, wanted);
}

}  // namespace evros::ops
