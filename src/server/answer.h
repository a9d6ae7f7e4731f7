// An exchange and its one answer: the headers that every answer carries, the count by status, and the line in the log.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api_error.h"
#include "server/http.h"
#include "server/metrics.h"

namespace evros::server {

/// Takes one line without its end; any thread.
using Log = std::function<void(std::string_view)>;

/// Threads as Exchange has it. Answer once: respond(), refuse(), or begin_stream(), send()..., end_stream().
class Answer {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  Answer(std::shared_ptr<Exchange> exchange, Metrics& metrics, const Log& log);

  const HttpRequest& request() const { return exchange_->request(); }
  /// The client's x-request-id, or one that was made.
  const std::string& id() const { return id_; }
  /// For whatever answer comes.
  void add_headers(const Headers& headers) { common_.insert(common_.end(), headers.begin(), headers.end()); }

  /// No line in the log for an answer that is no error.
  void set_quiet() { quiet_ = true; }

  /// `note` ends the line in the log.
  void respond(int status, std::string body, std::string_view note = "", std::string content_type = "application/json");
  void respond(HttpResponse response, std::string_view note = "");
  /// With OpenAI's form of an error as body.
  void refuse(const ApiError& error, std::string_view note = "");

  void begin_stream(std::string content_type);
  void send(std::string bytes) { exchange_->send(std::move(bytes)); }
  void end_stream(std::string_view note);

  bool has_room() const { return exchange_->has_room(); }
  void on_gone(std::function<void()> gone) { exchange_->on_gone(std::move(gone)); }
  void on_drained(std::function<void()> drained) { exchange_->on_drained(std::move(drained)); }
  /// A line for a request that nobody waits for any more.
  void log_gone(std::string_view note);

 private:
  void log(int status, std::string_view note);

  std::shared_ptr<Exchange> exchange_;
  Metrics& metrics_;
  const Log& log_;
  std::string id_;
  Headers common_;
  bool quiet_ = false;
};

}  // namespace evros::server
