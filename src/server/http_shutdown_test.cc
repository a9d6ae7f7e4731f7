// The server's beginning and end: shutdown with connections in every state, signals, work from other threads.
#include <csignal>
#include <future>

#include "server/http_testing.h"

namespace evros::server {

using namespace test;

namespace {

std::unique_ptr<HttpServer> listen(HttpHandler handler, const HttpOptions& options = quick_options()) {
  auto server = HttpServer::listen(options, std::move(handler));
  return server.ok() ? std::move(server).value() : nullptr;
}

TEST(HttpShutdown, IdleConnectionsAreClosedAtOnceAndAnswersUnderWayEnd) {
  std::promise<std::shared_ptr<Exchange>> promise;
  const auto server = listen([&](std::shared_ptr<Exchange> exchange) {
    if (exchange->request().path == "/quick") return echo(exchange);
    promise.set_value(std::move(exchange));
  });
  std::thread thread([&] { server->run(); });
  Client fresh(server->port()), used(server->port()), half(server->port()), running(server->port());
  used.send(get("/quick"));
  EXPECT_EQ(used.read_answer().status, 200);
  half.send("GET / HT");
  running.send(get("/long"));
  auto exchange = promise.get_future().get();
  ASSERT_TRUE(eventually([&] { return server->stats().connections == 4; }));

  server->shut_down(10);
  EXPECT_TRUE(fresh.closed_within(1));
  EXPECT_TRUE(used.closed_within(1));
  EXPECT_TRUE(half.closed_within(1));
  EXPECT_FALSE(Client(server->port()).connected());
  EXPECT_EQ(server->stats().connections, 1);
  exchange->begin_stream(text(""));
  exchange->send("the end");
  exchange->end_stream();
  const Answer answer = running.read_answer();
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(answer.body, "the end");
  EXPECT_EQ(answer.headers.at("connection"), "close");
  const auto start = Clock::now();
  thread.join();  // no need to wait for the grace
  EXPECT_LT(seconds_since(start), 1);
  EXPECT_EQ(server->stats().connections, 0);
  EXPECT_EQ(server->stats().exchanges, 0);
}

TEST(HttpShutdown, StuckConnectionsAreCutAfterTheGraceAndTheirExchangesToldSo) {
  std::atomic<int> gone = 0;
  std::vector<std::shared_ptr<Exchange>> held;  // the server's thread until it is joined
  HttpOptions options = quick_options();
  const auto server = listen(
      [&](std::shared_ptr<Exchange> exchange) {
        exchange->on_gone([&] { ++gone; });
        if (exchange->request().path == "/unread") exchange->begin_stream(text(std::string(30 << 20, 'x')));
        held.push_back(std::move(exchange));
      },
      options);
  std::thread thread([&] { server->run(); });
  Client unanswered(server->port()), unread(server->port());
  unanswered.send(get("/unanswered"));
  unread.send(get("/unread"));
  ASSERT_TRUE(eventually([&] { return server->stats().exchanges == 2; }));
  const auto start = Clock::now();
  server->shut_down(100);
  server->shut_down(0.2);  // less patience
  server->shut_down(100);  // does not give it back
  thread.join();
  EXPECT_GE(seconds_since(start), 0.2);
  EXPECT_LT(seconds_since(start), 2);
  EXPECT_EQ(gone, 2);
  EXPECT_EQ(server->stats().connections, 0);
  EXPECT_EQ(server->stats().exchanges, 0);
  EXPECT_TRUE(unread.was_reset());
  held[0]->respond(text("too late"));
}

TEST(HttpShutdown, ExchangesMayOutliveTheirServer) {
  std::shared_ptr<Exchange> held;
  {
    TestServer server([&](std::shared_ptr<Exchange> exchange) { held = std::move(exchange); });
    server.expect_open_exchanges();
    Client client(server.port());
    client.send(get("/x"));
    ASSERT_TRUE(eventually([&] { return server->stats().exchanges == 1; }));
  }
  EXPECT_EQ(held->request().path, "/x");
  EXPECT_TRUE(held->has_room());
  held->on_gone([held] {});
  held->begin_stream(text("a"));
  held->send("b");
  held->end_stream();
  held->on_gone(nullptr);
}

TEST(HttpShutdown, ServerThatIsToldToEndBeforeItRunsEnds) {
  const auto server = listen(echo);
  server->shut_down(10);
  server->run();
  EXPECT_FALSE(Client(server->port()).connected());
}

TEST(HttpShutdown, ServerThatNeverRanCanBeDestroyed) {
  const size_t descriptors = open_descriptors();
  auto server = listen(echo);
  Client client(server->port());
  client.send(get("/"));
  client.close();
  server->post([] { ADD_FAILURE() << "nobody ran the server"; });
  server.reset();
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST(HttpShutdown, HandlerMayEndTheServer) {
  std::unique_ptr<HttpServer> server;
  server = listen([&](const std::shared_ptr<Exchange>& exchange) {
    server->shut_down(5);
    echo(exchange);
  });
  std::thread thread([&] { server->run(); });
  Client client(server->port());
  client.send(get("/"));
  EXPECT_EQ(client.read_answer().headers.at("connection"), "close");
  thread.join();
}

TEST(HttpShutdown, ManyClientsAndAShutdownInTheMiddle) {
  for (int round = 0; round < 5; ++round) {
    const auto server = listen(echo);
    std::thread thread([&] { server->run(); });
    std::atomic<int> answered = 0;
    std::vector<std::thread> clients;
    for (int i = 0; i < 4; ++i)
      clients.emplace_back([&] {
        for (;;) {
          Client client(server->port());
          if (!client.connected() || !client.send(get("/"))) return;
          const Answer answer = client.read_answer();
          if (answer.status == 0) return;
          EXPECT_TRUE(answer.whole);
          ++answered;
        }
      });
    EXPECT_TRUE(eventually([&] { return answered > 20; }));
    server->shut_down(1);
    thread.join();
    for (auto& client : clients) client.join();
    EXPECT_EQ(server->stats().connections, 0);
    EXPECT_EQ(server->stats().exchanges, 0);
  }
}

TEST(HttpShutdown, SignalsReachTheHandlerOnTheServersThreadEveryTime) {
  const auto server = listen(echo);
  std::atomic<int> sum = 0;
  std::atomic<std::thread::id> seen;
  server->on_signal([&](int signal) {
    seen = std::this_thread::get_id();
    sum += signal;
    if (sum == SIGTERM + SIGINT) server->shut_down(0);
  });
  std::thread thread([&] { server->run(); });
  const auto id = thread.get_id();
  std::raise(SIGTERM);
  EXPECT_TRUE(eventually([&] { return sum == SIGTERM; }));
  std::raise(SIGINT);
  thread.join();
  EXPECT_EQ(sum, SIGTERM + SIGINT);
  EXPECT_EQ(seen.load(), id);
}

TEST(HttpShutdown, PostedWorkRunsInOrderAlsoWhenTheServerIsAboutToEnd) {
  const auto server = listen(echo);
  std::vector<int> seen;
  std::thread thread([&] { server->run(); });
  for (int i = 0; i < 1000; ++i) server->post([&seen, i] { seen.push_back(i); });
  server->shut_down(0);
  thread.join();
  ASSERT_GE(seen.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[i], i);
}

}  // namespace
}  // namespace evros::server
