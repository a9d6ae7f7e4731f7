// Whole requests and whole answers over real sockets: framing, keep-alive, limits, deadlines.
#include "server/http.h"

#include <sys/resource.h>

#include "base/rng.h"
#include "server/http_testing.h"

namespace evros::server {

using namespace test;

namespace {

Answer ask(uint16_t port, std::string_view bytes) {
  Client client(port);
  EXPECT_TRUE(client.send(bytes));
  return client.read_answer();
}

TEST(Http, KeepAliveServesOneRequestAfterTheOtherOnOneConnection) {
  TestServer server(echo);
  {
    Client client(server.port());
    for (int i = 0; i < 3; ++i) {
      client.send(post("/a%20b?x=%20" + std::to_string(i), "body"));
      const Answer answer = client.read_answer();
      EXPECT_EQ(answer.status, 200);
      EXPECT_EQ(answer.body, "POST /a b?x=%20" + std::to_string(i) + "|body");
      EXPECT_EQ(answer.headers.count("connection"), 0u);
    }
    EXPECT_EQ(server->stats().accepted, 1u);
  }
  EXPECT_TRUE(server.idle());
}

TEST(Http, PipelinedRequestsAreAnsweredInOrderAlsoWhenTheFirstIsSlow) {
  std::mutex mutex;
  std::vector<std::thread> threads;
  {
    TestServer server([&](std::shared_ptr<Exchange> exchange) {
      const std::lock_guard lock(mutex);
      threads.emplace_back([exchange = std::move(exchange)]() mutable {
        if (exchange->request().path == "/slow") std::this_thread::sleep_for(std::chrono::milliseconds(100));
        echo(exchange);
        exchange.reset();
      });
    });
    Client client(server.port());
    client.send(get("/slow") + post("/fast", "b") + get("/last"));
    EXPECT_EQ(client.read_answer().body, "GET /slow?|");
    EXPECT_EQ(client.read_answer().body, "POST /fast?|b");
    EXPECT_EQ(client.read_answer().body, "GET /last?|");
  }
  for (auto& thread : threads) thread.join();
}

TEST(Http, AnswerToHeadHasTheLengthOfTheBodyAndNoBody) {
  TestServer server(echo);
  Client client(server.port());
  client.send("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n" + get("/next"));
  const Answer answer = client.read_answer(true);
  EXPECT_EQ(answer.headers.at("content-length"), std::to_string(std::string_view("HEAD /x?|").size()));
  EXPECT_EQ(client.read_answer().body, "GET /next?|");
}

TEST(Http, ChunkedBodiesArriveWithoutTheirCoding) {
  TestServer server(echo);
  const std::string request =
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nX: "
      "y\r\n\r\n";
  EXPECT_EQ(ask(server.port(), request).body, "POST /?|abc0123456789");
}

TEST(Http, EveryRefusalBeforeTheHandlerHasItsStatusAndClosesTheConnection) {
  HttpOptions options = quick_options();
  options.body_bytes = 1000;
  options.header_bytes = 1000;
  TestServer server([](const std::shared_ptr<Exchange>&) { ADD_FAILURE() << "the handler was called"; }, options);
  const std::string chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::pair<std::string, int> cases[] = {
      {post("/", std::string(1001, 'x')), 413},
      {chunked + "258\r\n" + std::string(600, 'x') + "\r\n258\r\n" + std::string(600, 'x'), 413},
      {"GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(1000, 'x') + "\r\n\r\n", 431},
      {"GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(2000, 'x'), 431},
      {"GET /" + std::string(2000, 'x'), 431},
      {chunked + "1;" + std::string(2000, 'x'), 431},
      {"nonsense\r\n\r\n", 400},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), 400},
      {"GET /%2e%2e/x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nA b\r\n\r\n", 400},
      {chunked + "zz\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 501},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: a miracle\r\n\r\n", 417},
  };
  for (const auto& [bytes, status] : cases) {
    Client client(server.port());
    client.send(bytes);
    const Answer answer = client.read_answer();
    EXPECT_EQ(answer.status, status) << bytes.substr(0, 100);
    EXPECT_TRUE(answer.whole) << bytes.substr(0, 100);
    EXPECT_EQ(answer.headers.at("connection"), "close");
    EXPECT_EQ(answer.headers.at("content-type"), "application/json");
    EXPECT_TRUE(answer.body.starts_with("{\"error\":{\"message\":\"")) << answer.body;
    EXPECT_TRUE(client.closed_within(1)) << bytes.substr(0, 100);
  }
  EXPECT_TRUE(server.idle());
}

TEST(Http, RefusalReachesAClientThatKeepsSending) {
  HttpOptions options = quick_options();
  options.body_bytes = 1000;
  TestServer server(echo, options);
  for (int i = 0; i < 20; ++i) {
    Client client(server.port());
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n");
    client.send(std::string(4000000, 'x'));  // a close with these unread would reset the connection
    EXPECT_EQ(client.read_answer().status, 413);
  }
}

TEST(Http, ContinueIsSentOnlyForABodyThatMayCome) {
  HttpOptions options = quick_options();
  options.body_bytes = 1000;
  TestServer server(echo, options);
  const auto head = [](int length) {
    return "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: " + std::to_string(length) +
           "\r\n\r\n";
  };
  Client client(server.port());
  client.send(head(4));
  EXPECT_EQ(client.read_answer().status, 100);
  client.send("body");
  EXPECT_EQ(client.read_answer().body, "POST /?|body");
  client.send(head(4) + "more");  // it did not wait
  EXPECT_EQ(client.read_answer().body, "POST /?|more");
  client.send(head(1001));
  EXPECT_EQ(client.read_answer().status, 413);
}

TEST(Http, SlowHeadIsAnswered408AndAnIdleConnectionIsClosedInSilence) {
  HttpOptions options = quick_options();
  options.header_seconds = 0.15;
  TestServer server(echo, options);
  Client idle(server.port()), kept(server.port()), slow(server.port());
  kept.send(get("/"));
  EXPECT_EQ(kept.read_answer().status, 200);
  const auto start = Clock::now();
  // A byte now and then must not renew the time.
  const std::string head = "GET / HTTP/1.1\r\nHost: abcdefghijklmnopqrstuvwxyz";
  for (size_t i = 0; i < head.size() && !slow.readable(0.01); ++i) slow.send(head.substr(i, 1));
  EXPECT_EQ(slow.read_answer().status, 408);
  EXPECT_LT(seconds_since(start), 2);
  EXPECT_TRUE(slow.closed_within(1));
  EXPECT_TRUE(idle.closed_within(1));
  EXPECT_TRUE(kept.closed_within(1));
}

TEST(Http, SlowBodyIsAnswered408) {
  HttpOptions options = quick_options();
  options.body_seconds = 0.1;
  TestServer server([](const std::shared_ptr<Exchange>&) { ADD_FAILURE() << "the handler was called"; }, options);
  Client client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
  for (int i = 0; i < 1000 && !client.readable(0.01); ++i) client.send("x");
  EXPECT_EQ(client.read_answer().status, 408);
  EXPECT_TRUE(client.closed_within(1));
}

TEST(Http, OldClientsGetPlainBodiesAndTheKeepAliveThatTheyAskFor) {
  TestServer server(echo);
  Client client(server.port());
  client.send("GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const Answer first = client.read_answer();
  EXPECT_EQ(first.body, "GET /1?|");
  EXPECT_EQ(first.headers.at("connection"), "keep-alive");
  client.send("GET /2 HTTP/1.0\r\n\r\n");
  const Answer second = client.read_answer();
  EXPECT_EQ(second.body, "GET /2?|");
  EXPECT_EQ(second.headers.at("connection"), "close");
  EXPECT_TRUE(client.closed_within(1));
}

TEST(Http, ExchangeThatIsLetGoIsAnswered500AndTheConnectionGoesOn) {
  TestServer server([](const std::shared_ptr<Exchange>& exchange) {
    if (exchange->request().path == "/answer") echo(exchange);
  });
  Client client(server.port());
  client.send(get("/forget") + get("/answer"));
  const Answer lost = client.read_answer();
  EXPECT_EQ(lost.status, 500);
  EXPECT_NE(lost.body.find("\"type\":\"server_error\""), std::string::npos);
  EXPECT_EQ(client.read_answer().body, "GET /answer?|");
}

TEST(Http, ConnectionsAboveTheLimitAreAnswered503AndTheOthersGoOn) {
  HttpOptions options = quick_options();
  options.connections = 2;
  TestServer server(echo, options);
  std::optional<Client> first(std::in_place, server.port()), second(std::in_place, server.port());
  ASSERT_TRUE(eventually([&] { return server->stats().connections == 2; }));
  for (int i = 0; i < 10; ++i) {
    Client third(server.port());
    third.send(get("/"));
    const Answer answer = third.read_answer();
    EXPECT_EQ(answer.status, 503);
    EXPECT_EQ(answer.headers.at("retry-after"), "1");
    EXPECT_TRUE(third.closed_within(1));
  }
  first->send(get("/"));
  EXPECT_EQ(first->read_answer().status, 200);
  second.reset();
  ASSERT_TRUE(eventually([&] { return server->stats().connections == 1; }));
  EXPECT_EQ(ask(server.port(), get("/")).status, 200);
  EXPECT_EQ(server->stats().accepted, 3u);
  EXPECT_EQ(server->stats().refused, 10u);
}

TEST(Http, FloodOfConnectionsAboveTheLimitIsShedAndTheServerGoesOn) {
  HttpOptions options = quick_options();
  options.connections = 1;
  TestServer server(echo, options);
  {
    Client served(server.port());
    ASSERT_TRUE(eventually([&] { return server->stats().connections == 1; }));
    std::vector<Client> flood;  // they neither read nor leave
    for (int i = 0; i < 150; ++i) flood.emplace_back(server.port());
    EXPECT_TRUE(eventually([&] { return server->stats().refused == 150; }));
    served.send(get("/"));
    EXPECT_EQ(served.read_answer().status, 200);
  }
  EXPECT_TRUE(server.idle());
  EXPECT_EQ(ask(server.port(), get("/")).status, 200);
}

TEST(Http, GarbageIsRefusedOrCutAndTheServerGoesOn) {
  TestServer server(echo);
  for (uint32_t i = 0; i < 200; ++i) {
    std::string bytes;
    for (uint32_t word = 0; word < i; ++word)
      for (const uint32_t bits : philox({word}, {i})) bytes.append(reinterpret_cast<const char*>(&bits), 4);
    Client client(server.port());
    client.send(i % 2 ? bytes + "\r\n\r\n" : get("/") + bytes);
    client.close_half();
    const Answer answer = client.read_answer();
    EXPECT_TRUE(answer.status == 0 || answer.status == 200 || answer.status == 400) << answer.status;
  }
  EXPECT_TRUE(server.idle());
  EXPECT_EQ(ask(server.port(), get("/")).status, 200);
}

TEST(Http, AnswerWithoutABodyHasNoneAlsoAsAStream) {
  TestServer server([](const std::shared_ptr<Exchange>& exchange) {
    if (exchange->request().path == "/next") return echo(exchange);
    exchange->begin_stream(text("no", 204));
    exchange->send("body");
    exchange->end_stream();
  });
  Client client(server.port());
  client.send(get("/") + get("/next"));
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(answer.headers.count("transfer-encoding") + answer.headers.count("content-length"), 0u);
  EXPECT_EQ(client.read_answer().body, "GET /next?|");
}

TEST(Http, ClientThatClosesItsHalfAfterTheRequestStillGetsAQuickAnswer) {
  TestServer server(echo);
  for (int i = 0; i < 50; ++i) {
    Client client(server.port());
    client.send(get("/x"));
    client.close_half();
    EXPECT_EQ(client.read_answer().body, "GET /x?|");
    EXPECT_TRUE(client.closed_within(1));
  }
}

TEST(Http, HeadersOfARequestCanBeFoundByTheirLowerCaseName) {
  TestServer server([](const std::shared_ptr<Exchange>& exchange) {
    const HttpRequest& request = exchange->request();
    exchange->respond(
        text(std::string(request.header("x-a")) + "," + std::string(request.header("none")) + "," + request.peer));
  });
  EXPECT_EQ(ask(server.port(), get("/", "X-A:  first \r\nx-a: second\r\n")).body, "first,,127.0.0.1");
}

TEST(Http, ManyQuickConnectionsLeaveNothingBehind) {
  TestServer server(echo);
  for (int i = 0; i < 500; ++i) {
    Client client(server.port());
    if (i % 3 == 0) client.send(get("/"));
    if (i % 5 == 0) client.reset();
  }
  EXPECT_TRUE(server.idle());
  EXPECT_EQ(ask(server.port(), get("/")).status, 200);
}

TEST(Http, LargeAnswersArriveWholeAlsoAtASlowReader) {
  const std::string big(5 << 20, 'b');
  HttpOptions options = quick_options();
  options.stall_seconds = 0.5;
  TestServer server([&](const std::shared_ptr<Exchange>& exchange) { exchange->respond(text(big)); }, options);
  Client client(server.port(), 64 << 10);
  client.send(get("/"));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const Answer answer = client.read_answer();
  EXPECT_TRUE(answer.whole);
  EXPECT_TRUE(answer.body == big);
}

TEST(Http, WithoutDescriptorsTheServerWaitsAndServesAgainLater) {
  TestServer server(echo);
  EXPECT_EQ(ask(server.port(), get("/")).status, 200);
  ASSERT_TRUE(server.idle());
  Client waiting(0);  // takes its descriptor now
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  std::optional<Client> client(std::in_place, server.port());
  ASSERT_TRUE(eventually([&] { return server->stats().connections == 1; }));
  // All descriptors up to the limit are taken: every further accept fails.
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  std::vector<int> taken;
  for (int copy; (copy = ::dup(0)) >= 0;) taken.push_back(copy);
  ::close(taken.back());
  taken.pop_back();
  Client late(server.port());  // takes the last one; the system has accepted it, the server cannot
  late.send(get("/late"));
  EXPECT_FALSE(late.readable(0.3));
  client->send(get("/old"));
  EXPECT_EQ(client->read_answer().body, "GET /old?|");
  for (const int copy : taken) ::close(copy);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(late.read_answer().body, "GET /late?|");
}

TEST(Http, AddressesAreNumbersOrLocalhostAndErrorsSayWhatToDo) {
  HttpOptions options = quick_options();
  for (const char* address : {"localhost", "127.0.0.1", "0.0.0.0", "::1", "::"}) {
    options.address = address;
    EXPECT_TRUE(HttpServer::listen(options, echo).ok()) << address;
  }
  options.address = "example.org";
  const auto named = HttpServer::listen(options, echo);
  ASSERT_FALSE(named.ok());
  EXPECT_EQ(named.error().code, Code::invalid_argument);
  EXPECT_NE(named.error().message.find("example.org"), std::string::npos);

  TestServer server(echo);
  options.address = "127.0.0.1";
  options.port = server.port();
  const auto taken = HttpServer::listen(options, echo);
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code, Code::io);
  EXPECT_NE(taken.error().message.find("127.0.0.1, port " + std::to_string(server.port())), std::string::npos);
  EXPECT_NE(taken.error().message.find("choose another port"), std::string::npos);
}

}  // namespace
}  // namespace evros::server
