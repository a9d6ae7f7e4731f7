// What the two sides of an exchange share: the handler's threads put an answer together, the server's thread takes it over
// when the socket can have it. No sockets here.
//
// Only this state and the loop's queue are ever touched by two threads. Whatever a call adds is put under one lock and one
// wake-up is posted, whose order relative to others does not matter; so pieces sent while a write is under way are taken
// over together.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/http.h"

namespace evros::server {

/// Posts work to the server's thread for as long as there is one. Exchanges may outlive their server, so they hold this.
class HttpLoop {
 public:
  using Post = std::function<void(std::function<void()>)>;
  explicit HttpLoop(Post post) : post_(std::move(post)) {}

  /// From any thread. After close() the work is dropped.
  void post(std::function<void()> work);
  void close();

 private:
  std::mutex mutex_;
  Post post_;
};

class HttpTalk : public std::enable_shared_from_this<HttpTalk> {
 public:
  /// What the handler's side did since the last look.
  struct News {
    std::optional<HttpResponse> head;
    bool streamed = false;  // `head` begins a stream
    std::string pieces;     // bytes of the stream
    bool ended = false;     // nothing comes after `pieces`
    bool let_go = false;    // nobody holds the exchange any more; an unfinished answer stays unfinished
  };

  HttpTalk(HttpRequest request, size_t room, std::shared_ptr<HttpLoop> loop)
      : request_(std::move(request)), room_(room), loop_(std::move(loop)) {}

  // The handler's side: any thread. See Exchange.
  const HttpRequest& request() const { return request_; }
  void respond(HttpResponse response);
  void begin_stream(HttpResponse head);
  void send(std::string bytes);
  void end_stream();
  bool has_room() const { return over_ || waiting_ <= room_; }
  void on_gone(std::function<void()> gone);
  void on_drained(std::function<void()> drained);
  void let_go();

  // The connection's side: the server's thread.
  /// `wake` is called soon after there is news, until finish().
  void set_wake(std::function<void()> wake) { wake_ = std::move(wake); }
  /// The news; pieces and the end are left where they are while the socket still has something to write.
  News take(bool with_pieces);
  /// The reader took so many bytes of the pieces.
  void wrote(size_t bytes);
  /// The answer is written, or (gone) never will be. Callbacks are dropped, they often hold the exchange.
  void finish(bool gone);

 private:
  enum class Step { fresh, streaming, ended };

  void wake_up(std::unique_lock<std::mutex> lock);
  void update();

  const HttpRequest request_;
  const size_t room_;
  const std::shared_ptr<HttpLoop> loop_;
  std::atomic<size_t> waiting_ = 0;  // bytes sent and not yet taken by the reader
  std::atomic<bool> over_ = false;   // finish() was called

  std::mutex mutex_;
  News news_;                             // under mutex_
  std::function<void()> gone_, drained_;  // under mutex_; called without it
  Step step_ = Step::fresh;               // under mutex_
  bool posted_ = false;                   // under mutex_: a wake-up is on its way

  // The server's thread only.
  std::function<void()> wake_;
  bool is_gone_ = false;
};

/// The handler's end of `talk`; its destruction lets the exchange go.
std::shared_ptr<Exchange> make_exchange(std::shared_ptr<HttpTalk> talk);

}  // namespace evros::server
