#include "server/http_connection.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <new>
#include <utility>

namespace evros::server {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

namespace {

constexpr size_t kReadAhead = 64 << 10;  // bytes of later requests that are read during an answer
constexpr double kLingerSeconds = 2;     // for the client to see the end
constexpr auto kProbe = std::chrono::milliseconds(250);
constexpr int kUnsentBytes = 128 << 10;  // in the system's buffer, beside what is under way to the client
constexpr double kLongestSeconds = 1e9;  // what still fits a clock

std::atomic<uint64_t> request_number = 0;

bool is_temporary(const ErrorCode& error) {
  return error == asio::error::would_block || error == asio::error::try_again || error == asio::error::interrupted;
}

/// What the system holds of the bytes given to it, for asio's io_control().
class UntakenBytes {
 public:
  int name() const { return TIOCOUTQ; }
  void* data() { return &bytes_; }
  uint64_t get() const { return static_cast<uint64_t>(bytes_); }

 private:
  int bytes_ = 0;
};

void set_option(int socket, int level, int name, int value) {
  // Without it the server is slower to notice, no more.
  static_cast<void>(::setsockopt(socket, level, name, &value, sizeof value));
}

/// Pieces leave at once, little waits in the system where no deadline sees it, and a client whose machine has vanished
/// (its network is gone, so no end ever comes) becomes an error after about as long as one that stalls.
void set_up(int socket, double stall_seconds) {
  // The system ends a connection by itself without telling the client, so it gets time to send again what was lost first.
  const int stall = static_cast<int>(std::clamp(stall_seconds, 10.0, 3600.0));
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytes);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, stall * 1000);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, stall);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1 + stall / 3);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
}

/// Both sides of the connection are open. Seen without reading: unread bytes hide the end that follows them.
bool is_established(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_state == TCP_ESTABLISHED;
}

}  // namespace

HttpConnection::HttpConnection(HttpHub& hub, HttpSocket socket)
    : hub_(hub), socket_(std::move(socket)), timer_(socket_.get_executor()), probe_timer_(socket_.get_executor()) {
  ErrorCode error;
  socket_.non_blocking(true, error);
  set_up(socket_.native_handle(), hub_.options.stall_seconds);
  const auto end = socket_.remote_endpoint(error);
  if (!error) peer_ = end.address().to_string();
}

template <typename Work>
void HttpConnection::within_memory(Work work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    cut();
  }
}

void HttpConnection::serve() {
  within_memory([this] { await_request(); });
}

void HttpConnection::turn_away() {
  refused_ = true;
  within_memory([this] {
    refuse({503, "too_many_connections", "the server has no more connections to give; try again later"});
  });
}

// ---- reading

void HttpConnection::await_request() {
  phase_ = Phase::head;
  reader_.emplace(hub_.options.header_bytes, hub_.options.body_bytes);
  asked_to_continue_ = begun_ = chunked_ = streamed_ = ended_ = false;
  set_deadline(hub_.options.header_seconds);
  if (!input_.empty()) parse();
  read();
}

/// Exactly one read waits at any time, also during an answer: that is how the client's leaving is noticed.
void HttpConnection::read() {
  if (phase_ == Phase::closed || reading_ || end_of_input_) return;
  if (phase_ == Phase::answer && input_.size() >= kReadAhead) return probe();
  reading_ = true;
  socket_.async_wait(HttpSocket::wait_read, [self = shared_from_this()](const ErrorCode& error) {
    self->reading_ = false;
    self->on_readable(error);
  });
}

void HttpConnection::on_readable(ErrorCode error) {
  if (phase_ == Phase::closed) return;
  size_t bytes = 0;
  if (!error) bytes = socket_.read_some(asio::buffer(hub_.scratch), error);
  if (error && !is_temporary(error)) return on_end(error == asio::error::eof);
  within_memory([&] {
    if (phase_ != Phase::linger) {
      input_.append(hub_.scratch.data(), bytes);
      if (phase_ != Phase::answer) parse();
    }
    read();
  });
}

/// The client sends no more (regular), or the connection is broken.
void HttpConnection::on_end(bool regular) {
  end_of_input_ = true;
  const bool whole_answer = !talk_ || (begun_ && !streamed_);
  if (phase_ == Phase::answer && regular && whole_answer) {
    keep_alive_ = false;  // it may have closed its half only, and can have what is on its way already
    return;
  }
  close(true);
}

/// During an answer whose client has sent more than is read ahead.
void HttpConnection::probe() {
  if (std::exchange(probing_, true)) return;
  probe_timer_.expires_after(kProbe);
  probe_timer_.async_wait([self = shared_from_this()](const ErrorCode&) {
    self->probing_ = false;
    if (self->phase_ != Phase::answer || self->end_of_input_) return;
    if (is_established(self->socket_.native_handle())) return self->read();
    self->on_end(true);
  });
}

void HttpConnection::parse() {
  const size_t used = reader_->feed(input_);
  input_.erase(0, used);
  switch (reader_->state()) {
    case HttpReader::State::head:
      return;
    case HttpReader::State::body:
      if (phase_ == Phase::head) {
        phase_ = Phase::body;
        set_deadline(hub_.options.body_seconds);
      }
      if (reader_->wants_continue() && input_.empty() && !std::exchange(asked_to_continue_, true)) {
        out_.push("HTTP/1.1 100 Continue\r\n\r\n");
        write();
      }
      return;
    case HttpReader::State::failed:
      return refuse(reader_->failure());
    case HttpReader::State::done:
      return start_exchange();
  }
}

void HttpConnection::start_exchange() {
  HttpRequest request = reader_->take();
  request.peer = peer_;
  request.number = ++request_number;
  http11_ = reader_->is_http11();
  keep_alive_ = reader_->keep_alive() && !hub_.draining;
  to_head_ = request.method == "HEAD";
  phase_ = Phase::answer;
  clear_deadline();
  talk_ = std::make_shared<HttpTalk>(std::move(request), hub_.options.stream_bytes, hub_.loop);
  talk_->set_wake([this] {
    const auto self = shared_from_this();  // update() may end the connection
    within_memory([this] { update(); });
  });
  ++hub_.exchanges;
  hub_.handler(make_exchange(talk_));
}

/// Answers for the handler. What follows in the stream has no meaning, so the connection ends.
void HttpConnection::refuse(const HttpFailure& failure) {
  phase_ = Phase::answer;
  keep_alive_ = to_head_ = false;
  input_.clear();
  begin_answer(http_error(failure), false);
  ended_ = true;
  set_deadline(hub_.options.stall_seconds);
  write();
}

// ---- writing

void HttpConnection::update() {
  if (!talk_) return;
  HttpTalk::News news = talk_->take(out_.empty());
  if (news.let_go && !begun_ && !news.head) {
    news.head = http_error({500, "no_answer", "the server failed to answer this request"});
    news.ended = true;
  } else if (news.let_go) {
    return break_off();
  }
  if (news.head) begin_answer(std::move(*news.head), news.streamed);
  if (!news.pieces.empty()) push_pieces(std::move(news.pieces));
  if (news.ended && begun_ && !std::exchange(ended_, true) && chunked_ && !to_head_) out_.push("0\r\n\r\n");
  pump();
}

void HttpConnection::begin_answer(HttpResponse response, bool streamed) {
  HttpFraming framing;
  if (is_bodiless(response.status)) to_head_ = true;
  if (streamed && !is_bodiless(response.status))
    framing.body = http11_ ? HttpFraming::Body::chunked : HttpFraming::Body::to_end;
  keep_alive_ = keep_alive_ && !hub_.draining && framing.body != HttpFraming::Body::to_end;
  framing.keep_alive = keep_alive_;
  framing.http11 = http11_;
  begun_ = true;
  streamed_ = streamed;
  chunked_ = framing.body == HttpFraming::Body::chunked;
  out_.push(response_head(response, framing, std::chrono::system_clock::now()));
  if (!to_head_) out_.push(std::move(response.body));
}

void HttpConnection::push_pieces(std::string pieces) {
  if (to_head_) return talk_->wrote(pieces.size());
  if (chunked_) out_.push(chunk_head(pieces.size()));
  out_.push(std::move(pieces), HttpOutQueue::Kind::payload);
  if (chunked_) out_.push("\r\n");
}

void HttpConnection::pump() {
  if (phase_ != Phase::answer) return;
  if (out_.empty() && ended_) return on_answered();
  write();
}

void HttpConnection::write() {
  if (phase_ == Phase::closed || writing_ || out_.empty()) return;
  writing_ = true;
  if (phase_ == Phase::answer) set_deadline(hub_.options.stall_seconds);
  std::array<asio::const_buffer, 8> buffers;
  for (size_t i = 0; i < buffers.size(); ++i) buffers[i] = asio::buffer(out_.at(i));
  socket_.async_write_some(buffers, [self = shared_from_this()](const ErrorCode& error, size_t bytes) {
    self->writing_ = false;
    self->on_written(error, bytes);
  });
}

void HttpConnection::on_written(ErrorCode error, size_t bytes) {
  if (phase_ == Phase::closed) return;
  if (error) return close(true);
  within_memory([&] {
    written_ += bytes;
    const size_t payload = out_.consume(bytes);
    if (talk_) talk_->wrote(payload);
    if (!out_.empty()) return write();
    if (phase_ == Phase::answer) clear_deadline();
    if (talk_ && !ended_) return update();
    pump();
  });
}

void HttpConnection::on_answered() {
  if (talk_) {
    --hub_.exchanges;
    std::exchange(talk_, nullptr)->finish(false);
  }
  if (keep_alive_ && !hub_.draining) return await_request();
  linger();
}

// ---- ending

void HttpConnection::set_deadline(double seconds) {
  using namespace std::chrono;
  deadline_ = steady_clock::now() +
              duration_cast<steady_clock::duration>(duration<double>(std::clamp(seconds, 0.0, kLongestSeconds)));
  if (!armed_ || deadline_ < armed_for_) arm();
}

/// One wait serves many deadlines: when it ends early, it is renewed.
void HttpConnection::arm() {
  armed_ = true;
  armed_for_ = deadline_;
  timer_.expires_at(deadline_);
  timer_.async_wait([self = shared_from_this()](const ErrorCode& error) {
    if (error) return;
    self->armed_ = false;
    self->on_deadline();
  });
}

void HttpConnection::on_deadline() {
  if (phase_ == Phase::closed || deadline_ == kNever) return;
  if (std::chrono::steady_clock::now() < deadline_) return arm();
  switch (phase_) {
    case Phase::head:
      if (!reader_->has_begun()) return close(false);
      return refuse({408, "head_timeout", "the head of the request did not come in time"});
    case Phase::body:
      return refuse({408, "body_timeout", "the body of the request did not come in time"});
    case Phase::answer:
      return has_progress() ? set_deadline(hub_.options.stall_seconds) : cut();
    case Phase::linger:
    case Phase::closed:
      return close(false);
  }
}

/// Did the client's system take a byte since the last deadline? The socket takes more only in larger steps.
bool HttpConnection::has_progress() {
  ErrorCode error;
  UntakenBytes untaken;
  socket_.io_control(untaken, error);
  if (error) return false;
  const uint64_t before = std::exchange(taken_, written_ - untaken.get());
  return before < taken_;
}

void HttpConnection::linger() {
  // A client that sends nothing is not harmed by a close at once.
  const bool all_read = talk_ == nullptr && input_.empty() && reader_ && reader_->state() == HttpReader::State::done;
  if (end_of_input_ || all_read) return close(false);
  phase_ = Phase::linger;
  input_.clear();
  ErrorCode error;
  socket_.shutdown(HttpSocket::shutdown_send, error);
  set_deadline(kLingerSeconds);
  read();
}

void HttpConnection::drain() {
  keep_alive_ = false;
  if (phase_ == Phase::head || phase_ == Phase::body || refused_) close(false);
}

/// The handler let a stream go. Without chunks only a reset tells the client that this was not the end.
void HttpConnection::break_off() {
  ErrorCode error;
  if (!chunked_) socket_.set_option(asio::socket_base::linger(true, 0), error);
  close(false);
}

void HttpConnection::cut() {
  ErrorCode error;
  if (phase_ == Phase::answer) socket_.set_option(asio::socket_base::linger(true, 0), error);
  close(true);
}

void HttpConnection::close(bool gone) {
  if (std::exchange(phase_, Phase::closed) == Phase::closed) return;
  const auto self = shared_from_this();
  // The counters first: whoever sees the connection end finds them right.
  if (hub_.served.erase(self) > 0) --hub_.connections;
  hub_.refused.erase(self);
  if (talk_) --hub_.exchanges;
  ErrorCode error;
  socket_.close(error);
  timer_.cancel();
  probe_timer_.cancel();
  if (talk_) std::exchange(talk_, nullptr)->finish(gone);
  hub_.emptied();
}

}  // namespace evros::server
