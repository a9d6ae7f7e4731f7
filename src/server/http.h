// HTTP/1.1 and nothing else: connections, limits, timeouts, whole answers and streams. What the bytes mean is the handler's.
// Everything of Boost.Asio and Beast stays behind this header.
//
// Limits come first: a request is refused (413, 431, 408, 503) before its handler is called, an answer that nobody reads
// is given up, and every socket gets an end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace evros::server {

struct HttpOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 8080;  // 0: any free one
  uint64_t body_bytes = 8 << 20;
  uint32_t header_bytes = 32 << 10;
  int32_t connections = 256;        // more are answered 503 and closed
  double header_seconds = 15;       // from the connection, or the last answer, to the end of the next request's head
  double body_seconds = 60;         // for the whole body
  double stall_seconds = 30;        // a reader that takes nothing for so long, or up to twice that, is given up
  size_t stream_bytes = 256 << 10;  // Exchange::has_room() is false above this
};

struct HttpRequest {
  std::string method, path, query;  // path is percent-decoded and begins with '/'; query as it was sent
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
  std::string peer;     // address of the client
  uint64_t number = 0;  // of the request, unique in this process

  /// The first header of this name (lower case); empty when there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;  // further ones
  std::string body;
};

/// One request and its answer. Methods may be called from any thread, in the order respond(), or begin_stream(), send()...,
/// end_stream(). What comes after the client has gone is ignored. An exchange that is let go without an answer is
/// answered 500; a stream that is, is cut off.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const HttpRequest& request() const = 0;
  virtual void respond(HttpResponse response) = 0;

  /// Head of a streamed answer (chunked; status 200 and no caching for server-sent events).
  virtual void begin_stream(HttpResponse head) = 0;
  virtual void send(std::string bytes) = 0;
  virtual void end_stream() = 0;
  /// False while more than HttpOptions::stream_bytes wait to be taken by the reader.
  virtual bool has_room() const = 0;

  /// `gone` is called once, on the server's thread, if the client leaves or stalls before the answer's end (at once when it
  /// already has). A client that closes only its half of the connection has left too, unless respond() was called already.
  /// Both functions are dropped with the answer's end, so they may hold the exchange. `drained` is called there when has_room() becomes true again. Set both before anything is sent.
  virtual void on_gone(std::function<void()> gone) = 0;
  virtual void on_drained(std::function<void()> drained) = 0;
};

/// Called on the server's thread for every whole request; returns soon (longer work goes to another thread, holding the
/// exchange).
using HttpHandler = std::function<void(std::shared_ptr<Exchange>)>;

struct HttpStats {
  int64_t connections = 0, exchanges = 0;  // open now
  uint64_t accepted = 0, refused = 0;      // connections since the start
};

class HttpServer {
 public:
  /// Binds and listens; the error names address and port.
  static Result<std::unique_ptr<HttpServer>> listen(const HttpOptions& options, HttpHandler handler);
  virtual ~HttpServer() = default;

  virtual uint16_t port() const = 0;
  /// The server's thread: serves until shut_down() has done its work. After that nothing is called any more, and exchanges
  /// that are still held ignore what they are told.
  virtual void run() = 0;
  /// From any thread, also again: accepts no more, closes idle connections, lets answers under way end, and cuts off what
  /// is left after `grace_seconds`; then run() returns.
  virtual void shut_down(double grace_seconds) = 0;
  /// Runs `work` on the server's thread, soon; work posted by one thread runs in its order. Dropped once run() is over.
  virtual void post(std::function<void()> work) = 0;
  /// Calls `handler` on the server's thread for SIGTERM and SIGINT. At most once.
  virtual void on_signal(std::function<void(int)> handler) = 0;
  virtual HttpStats stats() const = 0;
};

}  // namespace evros::server
