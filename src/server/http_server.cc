#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <cmath>
#include <csignal>
#include <new>
#include <utility>

#include "base/str.h"
#include "server/http_connection.h"

namespace evros::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

namespace {

constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr size_t kScratchBytes = 64 << 10;
constexpr size_t kTurningAway = 64;  // at a time; further ones are closed without a word

class Server final : public HttpServer {
 public:
  Server(const HttpOptions& options, HttpHandler handler);
  ~Server() override;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  Status open(const asio::ip::address& address);

  uint16_t port() const override { return port_; }
  void run() override;
  void shut_down(double grace_seconds) override;
  void post(std::function<void()> work) override { hub_.loop->post(std::move(work)); }
  void on_signal(std::function<void(int)> handler) override;
  HttpStats stats() const override;

 private:
  void run_until_stopped();
  void accept();
  void on_accept(ErrorCode error);
  void start(HttpSocket socket);
  void begin_shutdown(double grace_seconds);
  void cut_all();
  void stop_if_empty();
  void await_signal();

  HttpHub hub_;  // outlives the handlers that io_ holds
  asio::io_context io_{1};
  asio::executor_work_guard<HttpExecutor> work_{io_.get_executor()};
  asio::basic_socket_acceptor<tcp, HttpExecutor> acceptor_{io_};
  HttpSocket incoming_{io_};
  HttpTimer pause_{io_}, grace_{io_};
  asio::basic_signal_set<HttpExecutor> signals_{io_};
  std::function<void(int)> signal_handler_;
  uint16_t port_ = 0;
};

Server::Server(const HttpOptions& options, HttpHandler handler) {
  hub_.options = options;
  hub_.handler = std::move(handler);
  hub_.scratch.resize(kScratchBytes);
  hub_.emptied = [this] { stop_if_empty(); };
  hub_.loop = std::make_shared<HttpLoop>([this](std::function<void()> work) { asio::post(io_, std::move(work)); });
}

Server::~Server() {
  hub_.loop->close();
  hub_.served.clear();
  hub_.refused.clear();
}

Status Server::open(const asio::ip::address& address) {
  const HttpOptions& options = hub_.options;
  const auto check = [&](const ErrorCode& error) -> Status {
    if (!error) return {};
    std::string_view advice = "choose another address";
    if (error == asio::error::address_in_use)
      advice = "another program listens there; choose another port, or 0 for any free one";
    if (error == asio::error::access_denied) advice = "choose a port from 1024 on";
    return Error{Code::io, cat("cannot listen on address ", options.address, ", port ", options.port, ": ",
                               error.message(), "; ", advice)};
  };
  ErrorCode error;
  const tcp::endpoint endpoint(address, options.port);
  acceptor_.open(endpoint.protocol(), error);
  EVROS_TRY(check(error));
  acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (address.is_v6()) acceptor_.set_option(asio::ip::v6_only(false), error);  // "::" serves both
  acceptor_.bind(endpoint, error);
  EVROS_TRY(check(error));
  acceptor_.listen(asio::socket_base::max_listen_connections, error);
  EVROS_TRY(check(error));
  port_ = acceptor_.local_endpoint(error).port();
  EVROS_TRY(check(error));
  accept();
  return {};
}

void Server::run() {
  run_until_stopped();
  // What was posted before now still runs; nothing is posted any more.
  hub_.loop->close();
  io_.restart();
  io_.poll();
}

void Server::run_until_stopped() {
  while (!io_.stopped()) {
    try {
      io_.run();
    } catch (const std::bad_alloc&) {
      // It cost the one connection or piece of work that wanted the memory.
    }
  }
}

void Server::accept() {
  acceptor_.async_accept(incoming_, [this](const ErrorCode& error) { on_accept(error); });
}

void Server::on_accept(ErrorCode error) {
  if (hub_.draining) {
    incoming_.close(error);
    return;
  }
  if (!error) {
    HttpSocket socket = std::exchange(incoming_, HttpSocket(io_));
    accept();
    return start(std::move(socket));
  }
  // No descriptors or no memory, as a rule: both come back when connections end.
  pause_.expires_after(kAcceptPause);
  pause_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled && !hub_.draining) accept();
  });
}

void Server::start(HttpSocket socket) {
  const bool full = hub_.served.size() >= static_cast<size_t>(hub_.options.connections);
  ++(full ? hub_.turned_away : hub_.accepted);
  if (full && hub_.refused.size() >= kTurningAway) return;
  const auto connection = std::make_shared<HttpConnection>(hub_, std::move(socket));
  if (full) {
    hub_.refused.insert(connection);
    return connection->turn_away();
  }
  hub_.served.insert(connection);
  ++hub_.connections;
  connection->serve();
}

void Server::shut_down(double grace_seconds) {
  hub_.loop->post([this, grace_seconds] { begin_shutdown(grace_seconds); });
}

void Server::begin_shutdown(double grace_seconds) {
  ErrorCode error;
  acceptor_.close(error);
  pause_.cancel();
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::milliseconds(std::llround(std::clamp(grace_seconds, 0.0, 1e9) * 1e3));
  if (!hub_.draining || end < grace_.expiry()) {  // a later call may shorten the grace
    grace_.expires_at(end);
    grace_.async_wait([this](const ErrorCode& cancelled) {
      if (!cancelled) cut_all();
    });
  }
  hub_.draining = true;
  for (const auto& group : {hub_.served, hub_.refused})
    for (const auto& connection : group) connection->drain();
  stop_if_empty();
}

void Server::cut_all() {
  for (const auto& group : {hub_.served, hub_.refused})
    for (const auto& connection : group) connection->cut();
}

void Server::stop_if_empty() {
  if (hub_.draining && hub_.served.empty() && hub_.refused.empty()) io_.stop();
}

void Server::on_signal(std::function<void(int)> handler) {
  signal_handler_ = std::move(handler);
  ErrorCode error;
  signals_.add(SIGTERM, error);
  signals_.add(SIGINT, error);
  await_signal();
}

void Server::await_signal() {
  signals_.async_wait([this](const ErrorCode& error, int signal) {
    if (error) return;
    await_signal();
    signal_handler_(signal);
  });
}

HttpStats Server::stats() const { return {hub_.connections, hub_.exchanges, hub_.accepted, hub_.turned_away}; }

Status check_options(const HttpOptions& options) {
  const auto require = [](bool good, std::string_view what) -> Status {
    if (good) return {};
    return Error{Code::invalid_argument, cat("the server's ", what)};
  };
  EVROS_TRY(require(options.connections > 0, "limit of connections must be at least 1"));
  EVROS_TRY(require(options.header_bytes >= 256, "limit of a request's head must be at least 256 bytes"));
  EVROS_TRY(require(options.header_seconds > 0 && options.body_seconds > 0 && options.stall_seconds > 0,
                    "time limits must be above 0 seconds"));
  return {};
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const HttpOptions& options, HttpHandler handler) {
  EVROS_TRY(check_options(options));
  ErrorCode error;
  const std::string name = options.address == "localhost" ? "127.0.0.1" : options.address;
  const auto address = asio::ip::make_address(name, error);
  if (error)
    return Error{Code::invalid_argument,
                 cat("cannot listen on address ", options.address, ", port ", options.port,
                     ": the address must be localhost or numbers such as 127.0.0.1, 0.0.0.0, ::1 or ::")};
  auto server = std::make_unique<Server>(options, std::move(handler));
  EVROS_TRY(server->open(address));
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace evros::server
