// A server on a free port of this machine, and a client that speaks raw bytes: what the tests of this folder share.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "server/http.h"

namespace evros::server::test {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// How long a test waits for what must come: far longer than it takes, with a sanitizer on a busy machine too.
constexpr double kPatience = 120;

/// Waits until `condition` holds; false when it does not within `seconds`.
inline bool eventually(const std::function<bool()>& condition, double seconds = kPatience) {
  const auto start = Clock::now();
  while (!condition()) {
    if (seconds_since(start) > seconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

inline size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

/// An answer as a client sees it.
struct Answer {
  int status = 0;                              // 0: none came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // without its coding
  bool whole = false;                          // it came to the end that its head announces
};

/// One connection of a client. Every read gives up after kPatience.
class Client {
 public:
  explicit Client(uint16_t port, int receive_bytes = 0) {
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    if (receive_bytes > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~Client() { close(); }
  Client(Client&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_), input_(std::move(other.input_)) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }

  /// False when the server has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  /// One answer; `to_head` when it has no body whatever its head says.
  Answer read_answer(bool to_head = false) {
    Answer answer;
    const size_t end = find("\r\n\r\n");
    if (end == std::string::npos) return answer;
    parse_head(input_.substr(0, end), answer);
    input_.erase(0, end + 4);
    if (to_head || answer.status == 204 || answer.status == 304 || answer.status == 100)
      answer.whole = true;
    else if (answer.headers.count("content-length") > 0)
      answer.whole = take(std::stoul(answer.headers["content-length"]), answer.body);
    else if (answer.headers.count("transfer-encoding") > 0)
      read_chunks(answer);
    else
      answer.body = rest(), answer.whole = true;
    return answer;
  }

  /// The next chunk of a stream whose head was read as to a HEAD request; nullopt at the connection's end.
  std::optional<std::string> read_chunk() {
    const size_t end = find("\r\n");
    if (end == std::string::npos) return std::nullopt;
    const size_t size = std::stoul(input_.substr(0, end), nullptr, 16);
    input_.erase(0, end + 2);
    std::string chunk, line_end;
    if (!take(size, chunk) || !take(2, line_end) || line_end != "\r\n") return std::nullopt;
    return chunk;
  }

  /// Everything up to the connection's end.
  std::string rest() {
    while (read_more()) {
    }
    return std::exchange(input_, {});
  }

  /// True when the server closes (or resets) within `seconds` without another byte.
  bool closed_within(double seconds) {
    if (!input_.empty() || !readable(seconds)) return false;
    char byte;
    return ::recv(socket_, &byte, 1, 0) <= 0;
  }
  bool readable(double seconds) const {
    pollfd wait{socket_, POLLIN, 0};
    return ::poll(&wait, 1, static_cast<int>(seconds * 1000)) == 1;
  }

  /// How the connection ended: true when by a reset. Reads to the end.
  bool was_reset() {
    char bytes[65536];
    ssize_t got = 1;
    while (got > 0 && readable(kPatience)) got = ::recv(socket_, bytes, sizeof bytes, 0);
    return got < 0;
  }

  void close_half() { ::shutdown(socket_, SHUT_WR); }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  void reset() {
    const linger now{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }

 private:
  bool read_more() {
    if (!readable(kPatience)) return false;
    char bytes[65536];
    const ssize_t got = ::recv(socket_, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    input_.append(bytes, static_cast<size_t>(got));
    return true;
  }
  size_t find(std::string_view mark) {
    size_t at;
    while ((at = input_.find(mark)) == std::string::npos)
      if (!read_more()) break;
    return at;
  }
  bool take(size_t bytes, std::string& out) {
    while (input_.size() < bytes)
      if (!read_more()) {
        out += std::exchange(input_, {});
        return false;
      }
    out += input_.substr(0, bytes);
    input_.erase(0, bytes);
    return true;
  }
  static void parse_head(const std::string& head, Answer& answer) {
    answer.status = std::stoi(head.substr(head.find(' ')));
    for (size_t at = head.find("\r\n"); at != std::string::npos; at = head.find("\r\n", at + 2)) {
      const std::string line = head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
      std::string name = line.substr(0, line.find(": "));
      for (char& c : name) c = static_cast<char>(std::tolower(c));
      answer.headers[name] = line.substr(line.find(": ") + 2);
    }
  }
  void read_chunks(Answer& answer) {
    while (auto chunk = read_chunk()) {
      if (chunk->empty()) {
        answer.whole = true;
        return;
      }
      answer.body += *chunk;
    }
  }

  int socket_ = -1;
  bool connected_ = false;
  std::string input_;
};

inline HttpOptions quick_options() {
  HttpOptions options;
  options.port = 0;
  return options;
}

inline HttpResponse text(std::string body, int status = 200) {
  HttpResponse response;
  response.status = status;
  response.content_type = "text/plain";
  response.body = std::move(body);
  return response;
}

inline std::string get(std::string_view target, std::string_view more = "") {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: a\r\n" + std::string(more) + "\r\n";
}

inline std::string post(std::string_view target, std::string_view body) {
  return "POST " + std::string(target) + " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}

/// Runs a server on a thread of its own. At its end nothing may be left: no connection, no exchange, no descriptor.
class TestServer {
 public:
  explicit TestServer(HttpHandler handler, const HttpOptions& options = quick_options())
      : descriptors_(open_descriptors()) {
    auto server = HttpServer::listen(options, std::move(handler));
    EXPECT_TRUE(server.ok()) << (server.ok() ? "" : server.error().message);
    server_ = std::move(server).value();
    thread_ = std::thread([this] { server_->run(); });
  }
  ~TestServer() {
    EXPECT_TRUE(eventually([&] { return ended_ || server_->stats().exchanges == 0; }));
    server_->shut_down(0);
    thread_.join();
    EXPECT_EQ(server_->stats().connections, 0);
    EXPECT_EQ(server_->stats().exchanges, 0);
    server_.reset();
    EXPECT_EQ(open_descriptors(), descriptors_);
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  HttpServer* operator->() const { return server_.get(); }
  uint16_t port() const { return server_->port(); }
  /// The test ends exchanges by the shutdown itself.
  void expect_open_exchanges() { ended_ = true; }
  /// Nothing but the clients that are still open may hold a connection.
  bool idle() const {
    return eventually([&] { return server_->stats().connections == 0 && server_->stats().exchanges == 0; });
  }

 private:
  size_t descriptors_;
  bool ended_ = false;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

/// Answers with what it was asked: "METHOD path?query|body".
inline void echo(const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  exchange->respond(text(request.method + " " + request.path + "?" + request.query + "|" + request.body));
}

}  // namespace evros::server::test
