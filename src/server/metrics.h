// Numbers since the start that neither scheduler nor HTTP keep, and how all of them are shown: /metrics in Prometheus' text
// format (version 0.0.4), /status for people and the page.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/scheduler.h"
#include "server/http.h"

namespace evros::server {

/// Counts of values by upper bound; not thread-safe.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1) {}
  void add(double value);
  /// HELP, TYPE, cumulated buckets with +Inf, sum and count.
  void write(std::string& out, std::string_view name, std::string_view help) const;

 private:
  std::vector<double> bounds_;
  std::vector<uint64_t> counts_;  // the last: beyond every bound
  double sum_ = 0;
};

/// Any thread.
class Metrics {
 public:
  Metrics();
  void response(int status);
  void first_token(double seconds);
  void reply(double tokens_per_second);
  void diverged();

  /// The lines of these numbers alone.
  std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::map<int, uint64_t> responses_;
  uint64_t diverged_ = 0;
  Histogram first_token_, rate_;
};

/// What does not change while the server runs.
struct ServerFacts {
  std::string model, identity, numerics, kernels, device;
  int threads = 0;
  int64_t context = 0;
  int32_t queue = 0;        // requests that may wait
  uint64_t started_ns = 0;  // on the clock of Io
  int64_t created = 0;      // seconds since 1970
};

std::string metrics_text(const ServerFacts& facts, const engine::SchedulerStats& engine, const HttpStats& http,
                         const Metrics& metrics);
std::string status_json(const ServerFacts& facts, const engine::SchedulerStats& engine, const HttpStats& http,
                        uint64_t now_ns);

}  // namespace evros::server
