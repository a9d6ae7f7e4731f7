// Streams: every piece arrives, clients that leave or stop reading are noticed, memory stays bounded.
#include <atomic>
#include <condition_variable>
#include <future>

#include "server/http_message.h"
#include "server/http_testing.h"

namespace evros::server {

using namespace test;

namespace {

HttpResponse events() {
  HttpResponse head;
  head.content_type = "text/event-stream";
  return head;
}

/// Hands the exchanges of a server to the test's own thread.
class Inbox {
 public:
  HttpHandler handler() {
    return [this](std::shared_ptr<Exchange> exchange) {
      exchange->on_gone([this] { ++gone; });
      const std::lock_guard lock(mutex_);
      exchanges_.push_back(std::move(exchange));
      arrived_.notify_one();
    };
  }
  std::shared_ptr<Exchange> next() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, std::chrono::seconds(10), [&] { return !exchanges_.empty(); })) return nullptr;
    auto exchange = std::move(exchanges_.front());
    exchanges_.erase(exchanges_.begin());
    return exchange;
  }

  std::atomic<int> gone = 0;

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::shared_ptr<Exchange>> exchanges_;
};

TEST(HttpStream, PiecesArriveAtOnceAndTheConnectionGoesOn) {
  Inbox inbox;
  TestServer server(inbox.handler());
  Client client(server.port());
  for (int round = 0; round < 2; ++round) {
    client.send(get("/"));
    const auto exchange = inbox.next();
    exchange->begin_stream(events());
    const Answer head = client.read_answer(true);
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(head.headers.at("transfer-encoding"), "chunked");
    EXPECT_EQ(head.headers.at("cache-control"), "no-cache");
    for (const char* piece : {"data: 1\n\n", "data: 2\n\n"}) {
      exchange->send(piece);
      EXPECT_EQ(client.read_chunk(), piece);  // before the next one is sent
    }
    exchange->send("");  // no piece at all: an empty chunk would end the stream
    exchange->end_stream();
    EXPECT_EQ(client.read_chunk(), "");
  }
  EXPECT_EQ(inbox.gone, 0);
}

TEST(HttpStream, OldClientsGetTheBareBytesUpToTheEndOfTheConnection) {
  Inbox inbox;
  TestServer server(inbox.handler());
  Client client(server.port());
  client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const auto exchange = inbox.next();
  HttpResponse head = events();
  head.body = "zero ";
  exchange->begin_stream(head);
  exchange->send("one ");
  exchange->send("two");
  exchange->end_stream();
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.headers.count("transfer-encoding"), 0u);
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_EQ(answer.body, "zero one two");
  EXPECT_EQ(inbox.gone, 0);
}

TEST(HttpStream, AnswerToHeadHasNoPieces) {
  Inbox inbox;
  TestServer server(inbox.handler());
  Client client(server.port());
  client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + get("/next"));
  {
    const auto exchange = inbox.next();
    exchange->begin_stream(events());
    exchange->send(std::string(1 << 20, 'x'));
    exchange->end_stream();
  }
  EXPECT_EQ(client.read_answer(true).status, 200);
  inbox.next()->respond(text("next"));
  EXPECT_EQ(client.read_answer().body, "next");
}

TEST(HttpStream, LeavingIsNoticedWithinASecondAtEveryStageOfTheAnswer) {
  Inbox inbox;
  TestServer server(inbox.handler());
  int expected = 0;
  for (const bool reset : {false, true})
    for (const bool begun : {false, true})
      for (const size_t ahead : {0, 100, 90000}) {  // bytes of a next request hide the end that follows them
        Client client(server.port());
        client.send(get("/"));
        const auto exchange = inbox.next();
        if (begun) {
          exchange->begin_stream(events());
          exchange->send("piece");
          EXPECT_EQ(client.read_answer(true).status, 200);
        }
        if (ahead > 0) client.send("POST /later HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n" + std::string(ahead, 'x'));
        EXPECT_EQ(inbox.gone, expected) << "bytes of a pipelined request are no end";
        const auto start = Clock::now();
        reset ? client.reset() : client.close();
        EXPECT_TRUE(eventually([&] { return inbox.gone == expected + 1; }, 2));
        EXPECT_LT(seconds_since(start), 1) << reset << begun << ahead;
        ++expected;
        EXPECT_TRUE(exchange->has_room());
        begun ? exchange->send("into the void") : exchange->respond(text("into the void"));
      }
  EXPECT_TRUE(server.idle());
  EXPECT_EQ(inbox.gone, expected);
}

TEST(HttpStream, CallbackSetAfterTheClientHasGoneIsCalledAtOnce) {
  Inbox inbox;
  TestServer server(inbox.handler());
  std::optional<Client> client(std::in_place, server.port());
  client->send(get("/"));
  const auto exchange = inbox.next();
  client.reset();
  ASSERT_TRUE(eventually([&] { return inbox.gone == 1; }));
  std::promise<std::thread::id> late, servers;
  exchange->on_gone([&] { late.set_value(std::this_thread::get_id()); });
  server->post([&] { servers.set_value(std::this_thread::get_id()); });
  auto called = late.get_future();
  ASSERT_EQ(called.wait_for(std::chrono::seconds(5)), std::future_status::ready);
  EXPECT_EQ(called.get(), servers.get_future().get());
}

TEST(HttpStream, ReaderThatStopsIsCutAndUntilThenItsSenderIsHeldBack) {
  HttpOptions options = quick_options();
  options.stall_seconds = 0.4;
  options.stream_bytes = 100000;
  Inbox inbox;
  TestServer server(inbox.handler(), options);
  Client client(server.port(), 32 << 10);
  client.send(get("/"));
  const auto exchange = inbox.next();
  exchange->begin_stream(events());
  const auto start = Clock::now();
  size_t sent = 0;
  // The sender keeps to has_room(): what it can get rid of is what the system buffers and stream_bytes.
  while (inbox.gone == 0 && seconds_since(start) < 5) {
    if (exchange->has_room()) {
      exchange->send(std::string(1000, 'x'));
      sent += 1000;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  EXPECT_EQ(inbox.gone, 1);
  EXPECT_GE(seconds_since(start), 0.4);
  EXPECT_LT(seconds_since(start), 3);
  EXPECT_LT(sent, 4000000u);
  EXPECT_TRUE(client.was_reset());
}

TEST(HttpStream, SlowReaderThatKeepsReadingIsNotCut) {
  HttpOptions options = quick_options();
  options.stall_seconds = 1;
  options.stream_bytes = 50000;
  Inbox inbox;
  TestServer server(inbox.handler(), options);
  // Room for several of the 64 KiB segments of a loopback: with less, some kernels drop them again and again.
  Client client(server.port(), 256 << 10);
  client.send(get("/"));
  auto exchange = inbox.next();
  std::mutex mutex;
  std::condition_variable drained;
  exchange->on_drained([&] {
    const std::lock_guard lock(mutex);
    drained.notify_one();
  });
  std::string all;
  size_t pauses = 0;
  std::thread sender([&] {
    exchange->begin_stream(events());
    for (int i = 0; i < 1500; ++i) {
      const std::string piece(8000, static_cast<char>('a' + i % 26));
      all += piece;
      std::unique_lock lock(mutex);
      pauses += !exchange->has_room();
      EXPECT_TRUE(drained.wait_for(lock, std::chrono::seconds(10), [&] { return exchange->has_room(); }));
      lock.unlock();
      exchange->send(piece);
    }
    exchange->end_stream();
  });
  ASSERT_EQ(client.read_answer(true).status, 200);
  std::string seen;
  const auto start = Clock::now();
  while (auto chunk = client.read_chunk()) {
    if (chunk->empty()) break;
    seen += *chunk;
    // Slower than the stall time in sum, never for so long at once.
    if (seconds_since(start) < 2.2) std::this_thread::sleep_for(std::chrono::milliseconds(40));
  }
  sender.join();
  EXPECT_TRUE(seen == all);
  EXPECT_GT(pauses, 0u);
  EXPECT_EQ(inbox.gone, 0);
}

TEST(HttpStream, UnfinishedStreamsDoNotLookFinished) {
  Inbox inbox;
  TestServer server(inbox.handler());
  for (const char* version : {"1.0", "1.1"}) {
    Client client(server.port());
    client.send("GET / HTTP/" + std::string(version) + "\r\nHost: a\r\n\r\n");
    auto exchange = inbox.next();
    exchange->begin_stream(events());
    exchange->send("half of");
    ASSERT_EQ(client.read_answer(true).status, 200);
    if (version == std::string_view("1.0")) {
      exchange.reset();
      EXPECT_TRUE(client.was_reset());
    } else {
      EXPECT_EQ(client.read_chunk(), "half of");
      exchange.reset();
      EXPECT_EQ(client.read_chunk(), std::nullopt);
    }
  }
  EXPECT_EQ(inbox.gone, 0);
  EXPECT_TRUE(server.idle());
}

TEST(HttpStream, CallbacksThatHoldTheirExchangeAreFreedWithTheAnswer) {
  std::weak_ptr<Exchange> watched;
  {
    TestServer server([&](const std::shared_ptr<Exchange>& exchange) {
      watched = exchange;
      exchange->on_gone([exchange] {});
      exchange->on_drained([exchange] {});
      echo(exchange);
    });
    Client client(server.port());
    client.send(get("/"));
    EXPECT_EQ(client.read_answer().status, 200);
    EXPECT_TRUE(eventually([&] { return watched.expired(); }));
  }
}

TEST(HttpStream, TwoHundredParallelStreamsLoseNoPiece) {
  constexpr int kStreams = 200, kPieces = 50;
  Inbox inbox;
  TestServer server(inbox.handler());
  std::vector<Client> clients;
  for (int i = 0; i < kStreams; ++i) clients.emplace_back(server.port()).send(get("/" + std::to_string(i)));
  std::vector<std::shared_ptr<Exchange>> exchanges;
  for (int i = 0; i < kStreams; ++i) exchanges.push_back(inbox.next());
  std::vector<std::thread> senders;
  for (int t = 0; t < 4; ++t)
    senders.emplace_back([&, t] {
      for (int i = t; i < kStreams; i += 4) exchanges[i]->begin_stream(events());
      for (int piece = 0; piece < kPieces; ++piece)
        for (int i = t; i < kStreams; i += 4)
          exchanges[i]->send(exchanges[i]->request().path + ":" + std::to_string(piece) + "\n");
      for (int i = t; i < kStreams; i += 4) exchanges[i]->end_stream();
    });
  for (int i = 0; i < kStreams; ++i) {
    std::string expected;
    for (int piece = 0; piece < kPieces; ++piece)
      expected += "/" + std::to_string(i) + ":" + std::to_string(piece) + "\n";
    const Answer answer = clients[i].read_answer();
    EXPECT_TRUE(answer.whole) << i;
    EXPECT_EQ(answer.body, expected) << i;
  }
  for (auto& sender : senders) sender.join();
  EXPECT_EQ(inbox.gone, 0);
}

TEST(HttpStream, ClientsThatLeaveAtAnyMomentLeaveNothingBehind) {
  Inbox inbox;
  TestServer server(inbox.handler());
  std::atomic<bool> stop = false;
  std::thread sender([&] {
    while (!stop) {
      const auto exchange = inbox.next();
      if (!exchange || exchange->request().path == "/stop") break;
      exchange->begin_stream(events());
      for (int i = 0; i < 20; ++i) exchange->send(std::string(2000, 'x'));
      exchange->end_stream();
    }
  });
  for (int i = 0; i < 200; ++i) {
    Client client(server.port());
    client.send(get("/"));
    if (i % 4 > 0) client.read_answer(true);
    if (i % 4 > 1) client.read_chunk();
    if (i % 2) client.reset();
  }
  EXPECT_TRUE(server.idle());
  stop = true;
  Client last(server.port());
  last.send(get("/stop"));
  EXPECT_EQ(last.read_answer().status, 500);
  sender.join();
}

}  // namespace
}  // namespace evros::server
