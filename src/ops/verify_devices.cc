// One history, one set of bits: the CPU and another device, compared owner by owner and logit by logit.
#include <cstring>

#include "base/str.h"
#include "io/memory_io.h"
#include "ops/verify_run.h"
#include "ops/verify_texts.h"

namespace evros::ops {
namespace {

std::string pair_name(const char* what, engine::Engine& other) { return cat(what, ", CPU and ", other.info().device); }

void check_owners(VerifyRun& run, const Texts& texts, const std::vector<engine::Digests>& wanted) {
  run.check(pair_name("every owner", run.engine()), "S3", [&](VerifyRow& row) -> Status {
    for (size_t i = 0; i < texts.size(); ++i) {
      EVROS_ASSIGN(const auto seen, run.solo(texts[i]));
      run.compare(row, seen, wanted[i], cat("text ", i));
    }
    return {};
  });
}

// Token by token, so that every row of logits is one that was published.
void check_logits(VerifyRun& run, engine::Engine& cpu, const std::vector<int32_t>& text) {
  run.check(pair_name("every logit", run.engine()), "S3", [&](VerifyRow& row) -> Status {
    engine::Engine& engine = run.engine();
    const Scoped here(engine, engine.open()), there(cpu, cpu.open());
    EVROS_TRY(here.status());
    EVROS_TRY(there.status());
    std::vector<float> seen(static_cast<size_t>(engine.model().hyper.vocab)), wanted(seen.size());
    for (size_t i = 0; i < text.size() && !run.out_of_time(); ++i) {
      const auto token = std::span(text).subspan(i, 1);
      EVROS_TRY(engine.append(here.id(), token));
      EVROS_TRY(cpu.append(there.id(), token));
      EVROS_TRY(engine.logits(here.id(), seen));
      EVROS_TRY(cpu.logits(there.id(), wanted));
      row.cases += seen.size();
      if (std::memcmp(seen.data(), wanted.data(), seen.size() * sizeof(float)) == 0) continue;
      return Error{Code::device, cat("a logit after token ", i, " has other bits")};
    }
    return {};
  });
}

// Half of the text on one device, saved, the rest on the other.
Status move_over(VerifyRow& row, VerifyRun& run, engine::Engine& from, engine::Engine& to,
                 const std::vector<int32_t>& text, const engine::Digests& wanted) {
  const size_t half = text.size() / 2;
  io::MemoryIo files;
  const Scoped first(from, from.open());
  EVROS_TRY(first.status());
  EVROS_TRY(from.append(first.id(), std::span(text).first(half)));
  EVROS_TRY(from.save(files, first.id(), "verify.snapshot", ""));
  EVROS_ASSIGN(const auto restored, to.restore(files, "verify.snapshot"));
  const Scoped second(to, restored.session);
  EVROS_TRY(to.append(second.id(), std::span(text).subspan(half)));
  EVROS_ASSIGN(const auto seen, to.digests(second.id()));
  run.compare(row, seen, wanted, cat("from ", from.info().device, " to ", to.info().device));
  return {};
}

void check_snapshots(VerifyRun& run, engine::Engine& cpu, const Texts& texts,
                     const std::vector<engine::Digests>& wanted) {
  run.check(pair_name("a snapshot moves", run.engine()), "S3 S9", [&](VerifyRow& row) -> Status {
    EVROS_TRY(move_over(row, run, cpu, run.engine(), texts[0], wanted[0]));
    return move_over(row, run, run.engine(), cpu, texts[1], wanted[1]);
  });
}

}  // namespace

void verify_devices(VerifyRun& run, engine::Engine& cpu, const Texts& texts,
                    const std::vector<engine::Digests>& wanted) {
  check_owners(run, texts, wanted);
  check_logits(run, cpu, texts[0]);
  check_snapshots(run, cpu, texts, wanted);
}

}  // namespace evros::ops
