// The partition table of docs/numerics.md: however tokens are cut and mixed, the image is the same.
#include <algorithm>

#include "base/str.h"
#include "ops/verify_run.h"
#include "ops/verify_texts.h"

namespace evros::ops {
namespace {

int64_t size(const std::vector<int32_t>& text) { return static_cast<int64_t>(text.size()); }

void check_cuts(VerifyRun& run, const std::string& name, const Texts& texts, const std::vector<engine::Digests>& wanted,
                const std::function<std::vector<int64_t>(uint32_t which, int64_t n)>& cuts) {
  run.check(name, "S3", [&](VerifyRow& row) -> Status {
    for (size_t i = 0; i < texts.size(); ++i) {
      EVROS_ASSIGN(const auto seen, run.solo(texts[i], cuts(static_cast<uint32_t>(i), size(texts[i]))));
      run.compare(row, seen, wanted[i], cat("text ", i));
    }
    return {};
  });
}

// A border at every place of the first tokens, EOS among them: n-gram window, convolutions and index tail all cross it.
void check_borders(VerifyRun& run, const std::vector<int32_t>& text) {
  run.check("a border at every place near EOS", "S3", [&](VerifyRow& row) -> Status {
    const std::span<const int32_t> start(text.data(), std::min<size_t>(text.size(), 24));
    EVROS_ASSIGN(const auto wanted, run.solo(start));
    for (size_t at = 1; at < start.size() && !run.out_of_time(); ++at) {
      const std::vector<int64_t> cuts{static_cast<int64_t>(at), static_cast<int64_t>(start.size() - at)};
      EVROS_ASSIGN(const auto seen, run.solo(start, cuts));
      run.compare(row, seen, wanted, cat("a border before token ", at));
    }
    return {};
  });
}

// Sequences of different texts in one batch, each advancing by its own random steps, until all are done.
void check_mixed(VerifyRun& run, size_t count, const Texts& texts, const std::vector<engine::Digests>& wanted) {
  run.check(cat(count, " sequences in one batch"), "S3 S4", [&](VerifyRow& row) -> Status {
    std::vector<std::unique_ptr<Scoped>> sessions;
    std::vector<size_t> at(count, 0), step(count, 0);
    std::vector<std::vector<int64_t>> cuts;
    const int64_t most = std::max<int64_t>(run.engine().info().plan.pass.rows / static_cast<int64_t>(count), 1);
    for (size_t i = 0; i < count; ++i) {
      sessions.push_back(std::make_unique<Scoped>(run.engine(), run.engine().open()));
      EVROS_TRY(sessions.back()->status());
      const auto n = size(texts[i % texts.size()]);
      cuts.push_back(random_cuts(run.options().seed, static_cast<uint32_t>(100 + i), n, std::min<int64_t>(most, 9)));
    }
    while (true) {
      std::vector<engine::ChunkRow> rows;
      for (size_t i = 0; i < count; ++i) {
        if (step[i] == cuts[i].size()) continue;
        const auto n = static_cast<size_t>(cuts[i][step[i]++]);
        rows.push_back({sessions[i]->id(), std::span(texts[i % texts.size()]).subspan(at[i], n)});
        at[i] += n;
      }
      if (rows.empty()) break;
      EVROS_ASSIGN(const auto statuses, run.engine().run_chunk(rows));
      for (const Status& status : statuses) EVROS_TRY(status);
    }
    for (size_t i = 0; i < count; ++i) {
      EVROS_ASSIGN(const auto seen, run.engine().digests(sessions[i]->id()));
      run.compare(row, seen, wanted[i % texts.size()], cat("sequence ", i));
    }
    return {};
  });
}

// Two chats take turns on one model.
void check_turns(VerifyRun& run, const Texts& texts, const std::vector<engine::Digests>& wanted) {
  run.check("two sessions taking turns", "S3 S4", [&](VerifyRow& row) -> Status {
    const Scoped a(run.engine(), run.engine().open()), b(run.engine(), run.engine().open());
    EVROS_TRY(a.status());
    EVROS_TRY(b.status());
    constexpr size_t kTurns = 3;
    const auto turn = [&](const Scoped& session, const std::vector<int32_t>& text, size_t t) -> Status {
      const size_t from = text.size() * t / kTurns, to = text.size() * (t + 1) / kTurns;
      if (from == to) return {};
      return run.engine().append(session.id(), std::span(text).subspan(from, to - from));
    };
    for (size_t t = 0; t < kTurns; ++t) {
      EVROS_TRY(turn(a, texts[0], t));
      EVROS_TRY(turn(b, texts[1], t));
    }
    EVROS_ASSIGN(const auto seen_a, run.engine().digests(a.id()));
    EVROS_ASSIGN(const auto seen_b, run.engine().digests(b.id()));
    run.compare(row, seen_a, wanted[0], "the first session");
    run.compare(row, seen_b, wanted[1], "the second session");
    return {};
  });
}

}  // namespace

void verify_partitions(VerifyRun& run, const Texts& texts, const std::vector<engine::Digests>& wanted) {
  check_cuts(run, "chunks of 1, 2, 1, ...", texts, wanted, [](uint32_t, int64_t n) {
    return repeated_cuts({1, 2, 1}, n);
  });
  check_cuts(run, "random chunks", texts, wanted,
             [&](uint32_t i, int64_t n) { return random_cuts(run.options().seed, i, n, 17); });
  check_borders(run, texts[0]);
  check_mixed(run, 2, texts, wanted);
  check_mixed(run, 4, texts, wanted);
  check_turns(run, texts, wanted);
  check_cuts(run, "token by token", texts, wanted, [](uint32_t, int64_t n) { return repeated_cuts({1}, n); });
}

}  // namespace evros::ops
