// evros verify: the promises, proved on this model and this machine.
#include "ops/verify.h"

#include <algorithm>
#include <cstdio>

#include "base/json_writer.h"
#include "cli/arguments.h"
#include "cli/common.h"
#include "cli/progress_bar.h"
#include "io/io.h"

namespace evros::cli {
namespace {

const char* word(ops::Outcome outcome) {
  switch (outcome) {
    case ops::Outcome::passed:
      return "passed";
    case ops::Outcome::failed:
      return "FAILED";
    case ops::Outcome::not_checked:
      return "not checked";
  }
  return "";
}

const char* verdict(const ops::VerifyReport& report) {
  if (report.passed()) return "passed";
  const bool failed = std::any_of(report.rows.begin(), report.rows.end(),
                                  [](const ops::VerifyRow& row) { return row.outcome == ops::Outcome::failed; });
  return failed ? "FAILED" : "NOT PASSED: nothing was checked; each row says why, and a larger --budget gives time";
}

void print_table(const ops::VerifyReport& report) {
  std::printf("%s, %s, kernels %s on %s\nidentity %s\n\n", printable(report.model).c_str(), report.numerics.c_str(),
              report.kernels.c_str(), report.device.c_str(), report.identity.c_str());
  for (const ops::VerifyRow& row : report.rows) {
    std::printf("  %-34s %-9s %6llu  %-11s %s\n", row.check.c_str(), row.proves.c_str(),
                static_cast<unsigned long long>(row.cases), word(row.outcome), row.note.c_str());
  }
  std::printf("\n  %-16s %10s %10s\n", "owner", "compared", "equal");
  for (const ops::VerifyOwner& owner : report.owners) {
    std::printf("  %-16s %10llu %10llu\n", owner.owner.c_str(), static_cast<unsigned long long>(owner.compared),
                static_cast<unsigned long long>(owner.equal));
  }
  std::printf("\ndigest of a text of %lld tokens: %s\n", static_cast<long long>(report.tokens),
              report.digests.combined.c_str());
  std::printf("\n%llu faults injected, %llu left the public digests unchanged; texts of %lld tokens; %.1f s: %s\n",
              static_cast<unsigned long long>(report.faults), static_cast<unsigned long long>(report.faults_unchanged),
              static_cast<long long>(report.tokens), report.seconds, verdict(report));
}

void print_json(const ops::VerifyReport& report) {
  JsonWriter json(1);
  json.begin_object().key("model").value(report.model).key("identity").value(report.identity);
  json.key("numerics").value(report.numerics).key("kernels").value(report.kernels).key("device").value(report.device);
  json.key("tokens").value(report.tokens).key("seconds").value(report.seconds).key("passed").value(report.passed());
  json.key("faults").value(report.faults).key("faults_unchanged").value(report.faults_unchanged);
  json.key("checks").begin_array();
  for (const ops::VerifyRow& row : report.rows) {
    json.begin_object().key("check").value(row.check).key("proves").value(row.proves).key("cases").value(row.cases);
    json.key("outcome").value(word(row.outcome)).key("note").value(row.note).end_object();
  }
  json.end_array().key("owners").begin_array();
  for (const ops::VerifyOwner& owner : report.owners) {
    json.begin_object().key("owner").value(owner.owner).key("compared").value(owner.compared);
    json.key("equal").value(owner.equal).end_object();
  }
  json.end_array().key("digests").begin_object();
  for (const auto& [owner, hex] : report.digests.owners) json.key(owner).value(hex);
  json.key("combined").value(report.digests.combined).end_object().end_object();
  std::printf("%s\n", json.take().c_str());
}

}  // namespace

int verify(const VerifyArguments& a) {
  const Result<std::string> path = model_path(a.model.model);
  if (!path.ok()) return fail(path.error());
  ops::VerifyOptions options;
  options.engine = engine_options(a.model);
  options.budget_seconds = a.budget;
  options.tokens = a.tokens;
  options.seed = a.seed;
  const auto report = [&] {
    ProgressBar bar("verifying", a.json);
    return ops::verify(io::real_io(), *path, options, bar.progress());
  }();
  if (!report.ok()) return fail(report.error());
  if (a.json)
    print_json(*report);
  else
    print_table(*report);
  return report->passed() ? 0 : 1;
}

}  // namespace evros::cli
