// One client's connection on the server's thread: reads requests one after another, writes their answers, and ends for a
// reason: the client's wish, a limit, a deadline, the server's shutdown.
//
//   head -> body -> answer -> head ...        keep-alive
//   head, body -> answer (a refusal)          -> linger -> closed
//   any -> closed                             the client is gone, or the time is up
//
// linger: the answer is out and our half is closed, but the client may still be sending; closing now would make the system
// reset the connection, and the answer would be lost with it.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/http_exchange.h"
#include "server/http_out_queue.h"
#include "server/http_reader.h"

namespace evros::server {

// Concrete executors: any_io_executor counts its references with a fence that the thread sanitizer cannot see.
using HttpExecutor = boost::asio::io_context::executor_type;
using HttpSocket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, HttpExecutor>;
using HttpTimer = boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                                    boost::asio::wait_traits<std::chrono::steady_clock>, HttpExecutor>;

class HttpConnection;

/// What all connections of a server share. The server's thread only, but for the counters.
struct HttpHub {
  HttpOptions options;
  HttpHandler handler;
  std::shared_ptr<HttpLoop> loop;
  std::set<std::shared_ptr<HttpConnection>> served, refused;
  bool draining = false;          // shut_down() was called: no answer keeps its connection alive
  std::function<void()> emptied;  // called when a connection left
  std::vector<char> scratch;      // what one read can take
  std::atomic<int64_t> connections = 0, exchanges = 0;
  std::atomic<uint64_t> accepted = 0, turned_away = 0;
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(HttpHub& hub, HttpSocket socket);

  /// Serves requests. The connection is in hub.served.
  void serve();
  /// Answers 503 whatever comes and closes. The connection is in hub.refused.
  void turn_away();
  /// Shutdown: closes now unless an answer is under way, which then is the last.
  void drain();
  /// Ends it at once; a client that is owed something gets a reset instead of what looks like a regular end.
  void cut();

 private:
  enum class Phase { head, body, answer, linger, closed };

  /// No memory for `work`: it costs this connection and nothing else.
  template <typename Work>
  void within_memory(Work work);

  // Reading.
  void read();
  void on_readable(boost::system::error_code error);
  void on_end(bool regular);
  void probe();
  void parse();
  void start_exchange();
  void refuse(const HttpFailure& failure);

  // Writing.
  void update();
  void begin_answer(HttpResponse response, bool streamed);
  void push_pieces(std::string pieces);
  void pump();
  void write();
  void on_written(boost::system::error_code error, size_t bytes);
  void on_answered();
  void await_request();

  // Ending.
  void set_deadline(double seconds);
  void clear_deadline() { deadline_ = kNever; }
  void arm();
  void on_deadline();
  bool has_progress();
  void linger();
  void break_off();
  void close(bool gone);

  static constexpr auto kNever = std::chrono::steady_clock::time_point::max();

  HttpHub& hub_;
  HttpSocket socket_;
  HttpTimer timer_, probe_timer_;
  std::chrono::steady_clock::time_point deadline_ = kNever;
  bool armed_ = false;                                        // timer_ is waiting,
  std::chrono::steady_clock::time_point armed_for_ = kNever;  // until then

  Phase phase_ = Phase::head;
  bool refused_ = false;  // by turn_away()
  bool reading_ = false, writing_ = false, probing_ = false;
  bool end_of_input_ = false;  // the client has closed its half
  std::string peer_;
  std::string input_;  // read and not yet used
  std::optional<HttpReader> reader_;
  bool asked_to_continue_ = false;

  // The answer under way.
  HttpOutQueue out_;
  uint64_t written_ = 0;            // bytes given to the system since the connection's begin,
  uint64_t taken_ = 0;              // and how many of them the client had at the last deadline
  std::shared_ptr<HttpTalk> talk_;  // none for a refusal
  bool http11_ = true, keep_alive_ = true;
  bool to_head_ = false;  // an answer without a body, whatever its head says
  bool begun_ = false, chunked_ = false, streamed_ = false, ended_ = false;  // its head is queued..., its end is queued
};

}  // namespace evros::server
