#include "server/answer.h"

#include <algorithm>

#include "base/str.h"
#include "server/system.h"

namespace evros::server {
namespace {

constexpr size_t kMostIdBytes = 128, kMostLoggedBytes = 100, kMostNoteBytes = 500;
constexpr int kClientGone = 499;  // never sent: how logs of other servers call it

bool is_visible(char c) { return c > ' ' && c < '\x7f'; }

std::string request_id(std::string_view given) {
  const bool usable =
      !given.empty() && given.size() <= kMostIdBytes && std::all_of(given.begin(), given.end(), is_visible);
  return usable ? std::string(given) : random_name("req-");
}

/// What a client wrote, as part of one line: short, and nothing that a terminal obeys or that turns the text around.
std::string loggable(std::string_view text, size_t most, bool spaces) {
  std::string out(text.substr(0, most));
  std::replace_if(
      out.begin(), out.end(), [&](char c) { return !is_visible(c) && !(spaces && c == ' '); }, '?');
  return text.size() > most ? out + "..." : out;
}

}  // namespace

Answer::Answer(std::shared_ptr<Exchange> exchange, Metrics& metrics, const Log& log)
    : exchange_(std::move(exchange)),
      metrics_(metrics),
      log_(log),
      id_(request_id(exchange_->request().header("x-request-id"))),
      common_{{"x-request-id", id_}} {}

void Answer::log(int status, std::string_view note) {
  metrics_.response(status);
  if (!log_ || (quiet_ && status < 400)) return;
  log_(cat(loggable(request().method, kMostLoggedBytes, false), ' ', loggable(request().path, kMostLoggedBytes, false),
           ' ', status, ' ', id_, note.empty() ? "" : " ", loggable(note, kMostNoteBytes, true)));
}

void Answer::respond(int status, std::string body, std::string_view note, std::string content_type) {
  respond(
      HttpResponse{.status = status, .content_type = std::move(content_type), .headers = {}, .body = std::move(body)},
      note);
}

void Answer::respond(HttpResponse response, std::string_view note) {
  response.headers.insert(response.headers.end(), common_.begin(), common_.end());
  log(response.status, note);
  exchange_->respond(std::move(response));
}

void Answer::refuse(const ApiError& error, std::string_view note) {
  HttpResponse response{
      .status = error.status, .content_type = "application/json", .headers = {}, .body = openai_error(error)};
  if (error.retry_after > 0) response.headers.emplace_back("retry-after", cat(error.retry_after));
  if (error.status == 401) response.headers.emplace_back("www-authenticate", "Bearer");
  respond(std::move(response), note.empty() ? cat("refused: ", error.message) : std::string(note));
}

void Answer::begin_stream(std::string content_type) {
  exchange_->begin_stream({.status = 200, .content_type = std::move(content_type), .headers = common_, .body = {}});
}

void Answer::end_stream(std::string_view note) {
  log(200, note);
  exchange_->end_stream();
}

void Answer::log_gone(std::string_view note) { log(kClientGone, note); }

}  // namespace evros::server
