#include "server/metrics.h"

#include <algorithm>

#include "base/json_writer.h"
#include "base/str.h"

namespace evros::server {
namespace {

constexpr double kSecondsBounds[] = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250};
constexpr double kRateBounds[] = {0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};

void head(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  out += cat("# HELP ", name, ' ', help, "\n# TYPE ", name, ' ', type, '\n');
}

template <typename N>
void one(std::string& out, std::string_view name, std::string_view type, N value, std::string_view help) {
  head(out, name, type, help);
  out += cat(name, ' ', value, '\n');
}

/// A label's value; Prometheus escapes what JSON does, in the same way, but for control characters, which become spaces.
std::string label(std::string_view text) {
  std::string clean(text);
  std::replace_if(
      clean.begin(), clean.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return json_quote(clean);
}

const char* state_name(engine::SequenceInfo::State state) {
  using State = engine::SequenceInfo::State;
  switch (state) {
    case State::waiting:
      return "waiting";
    case State::prefill:
      return "prefill";
    case State::decode:
      return "decode";
    case State::paused:
      return "paused";
    case State::kept:
      return "kept";
  }
  return "unknown";
}

double seconds(uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

void write_counters(std::string& out, const engine::SchedulerStats& e) {
  one(out, "evros_requests_total", "counter", e.requests, "Prompts handed to the engine.");
  one(out, "evros_requests_done_total", "counter", e.done, "Prompts whose replies all ended.");
  one(out, "evros_requests_failed_total", "counter", e.failed, "Prompts that ended with an error.");
  one(out, "evros_requests_cancelled_total", "counter", e.cancelled,
      "Prompts whose client left, or that were stopped.");
  one(out, "evros_requests_refused_total", "counter", e.refused, "Prompts refused before any work.");
  one(out, "evros_prompt_tokens_total", "counter", e.prompt_tokens, "Tokens of prompts, reused ones included.");
  one(out, "evros_reused_tokens_total", "counter", e.reused_tokens, "Tokens of prompts taken from kept sequences.");
  one(out, "evros_drawn_tokens_total", "counter", e.drawn_tokens, "Tokens of replies.");
  one(out, "evros_chunks_total", "counter", e.chunks, "Chunks that the engine ran.");
  one(out, "evros_chunk_tokens_total", "counter", e.chunk_tokens, "Tokens in those chunks.");
  one(out, "evros_chunk_seconds_total", "counter", seconds(e.chunk_ns), "Time in those chunks.");
}

void write_gauges(std::string& out, const engine::SchedulerStats& e, const HttpStats& http) {
  one(out, "evros_requests_waiting", "gauge", e.waiting, "Prompts in the queue.");
  one(out, "evros_requests_running", "gauge", e.running, "Prompts being computed or answered.");
  one(out, "evros_slots", "gauge", e.slots, "Sequences that can be held.");
  one(out, "evros_slots_used", "gauge", e.slots_used, "Sequences held, kept ones included.");
  one(out, "evros_slots_kept", "gauge", e.slots_kept, "Sequences kept for reuse.");
  one(out, "evros_banks", "gauge", e.banks, "Banks of fixed-size state.");
  one(out, "evros_banks_used", "gauge", e.banks_used, "Banks in use.");
  one(out, "evros_pages", "gauge", e.pages, "Pages of per-token state.");
  one(out, "evros_pages_used", "gauge", e.pages_used, "Pages in use.");
  one(out, "evros_table_leases", "gauge", e.table_leases, "Frames of the n-gram table held.");
  one(out, "evros_healthy", "gauge", e.healthy ? 1 : 0, "1 when the last chunk did what it should.");
  one(out, "evros_draining", "gauge", e.draining ? 1 : 0, "1 when no more requests are taken.");
  one(out, "evros_http_connections", "gauge", http.connections, "Open connections.");
  one(out, "evros_http_exchanges", "gauge", http.exchanges, "Requests under way.");
  one(out, "evros_http_accepted_total", "counter", http.accepted, "Connections accepted.");
  one(out, "evros_http_refused_total", "counter", http.refused, "Connections refused, as too many were open.");
}

}  // namespace

void Histogram::add(double value) {
  ++counts_[static_cast<size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin())];
  sum_ += value;
}

void Histogram::write(std::string& out, std::string_view name, std::string_view help) const {
  head(out, name, "histogram", help);
  uint64_t below = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    out += cat(name, "_bucket{le=\"", i < bounds_.size() ? cat(bounds_[i]) : "+Inf", "\"} ", below, '\n');
  }
  out += cat(name, "_sum ", sum_, '\n', name, "_count ", below, '\n');
}

Metrics::Metrics() : first_token_(kSecondsBounds), rate_(kRateBounds) {}

void Metrics::response(int status) {
  const std::lock_guard lock(mutex_);
  ++responses_[status];
}

void Metrics::first_token(double value) {
  const std::lock_guard lock(mutex_);
  first_token_.add(value);
}

void Metrics::reply(double tokens_per_second) {
  const std::lock_guard lock(mutex_);
  rate_.add(tokens_per_second);
}

void Metrics::diverged() {
  const std::lock_guard lock(mutex_);
  ++diverged_;
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string out;
  head(out, "evros_http_responses_total", "counter",
       "Answers by status; a stream counts with the status it began with.");
  for (const auto& [status, count] : responses_)
    out += cat("evros_http_responses_total{status=\"", status, "\"} ", count, '\n');
  one(out, "evros_prefix_diverged_total", "counter", diverged_,
      "Prompts that shared more with a kept sequence than could be reused.");
  first_token_.write(out, "evros_time_to_first_token_seconds", "From a request's arrival to its first token.");
  rate_.write(out, "evros_reply_tokens_per_second",
              "Tokens a second of whole replies, all choices of a request together.");
  return out;
}

std::string metrics_text(const ServerFacts& facts, const engine::SchedulerStats& engine, const HttpStats& http,
                         const Metrics& metrics) {
  std::string out;
  head(out, "evros_info", "gauge", "What is served; always 1.");
  out += cat("evros_info{model=", label(facts.model), ",identity=", label(facts.identity),
             ",numerics=", label(facts.numerics), ",kernels=", label(facts.kernels), ",device=", label(facts.device),
             "} 1\n");
  write_counters(out, engine);
  write_gauges(out, engine, http);
  return out + metrics.text();
}

std::string status_json(const ServerFacts& facts, const engine::SchedulerStats& e, const HttpStats& http,
                        uint64_t now_ns) {
  JsonWriter json;
  json.begin_object().key("model").value(facts.model).key("identity").value(facts.identity);
  json.key("numerics").value(facts.numerics).key("kernels").value(facts.kernels).key("device").value(facts.device);
  json.key("threads").value(facts.threads).key("context").value(facts.context);
  json.key("uptime_s").value(seconds(now_ns - facts.started_ns));
  json.key("healthy").value(e.healthy).key("draining").value(e.draining);
  json.key("slots").begin_object().key("total").value(e.slots).key("used").value(e.slots_used);
  json.key("kept").value(e.slots_kept).end_object();
  json.key("banks").begin_object().key("total").value(e.banks).key("used").value(e.banks_used).end_object();
  json.key("pages").begin_object().key("total").value(e.pages).key("used").value(e.pages_used);
  json.key("tokens_per_page").value(e.page_tokens).end_object();
  json.key("queue").begin_object().key("waiting").value(e.waiting).key("running").value(e.running);
  json.key("limit").value(facts.queue).end_object();
  json.key("sequences").begin_array();
  for (size_t i = 0; i < e.sequences.size(); ++i) {
    const engine::SequenceInfo& s = e.sequences[i];
    json.begin_object().key("id").value(i).key("state").value(state_name(s.state)).key("request").value(s.request);
    json.key("choice").value(s.choice).key("tokens").value(s.tokens).key("target").value(s.target);
    json.key("idle_s").value(seconds(s.idle_ns)).end_object();
  }
  json.end_array().key("totals").begin_object();
  json.key("requests").value(e.requests).key("done").value(e.done).key("failed").value(e.failed);
  json.key("cancelled").value(e.cancelled).key("refused").value(e.refused);
  json.key("prompt_tokens").value(e.prompt_tokens).key("reused_tokens").value(e.reused_tokens);
  json.key("drawn_tokens").value(e.drawn_tokens).key("chunks").value(e.chunks).end_object();
  json.key("http").begin_object().key("connections").value(http.connections);
  return json.key("exchanges").value(http.exchanges).end_object().end_object().take();
}

}  // namespace evros::server
