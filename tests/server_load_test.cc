// The server under load: 32 clients with mixed prompts, some of which leave, read slowly, send nonsense, ask for too much, or
// ask for what cannot be computed. Every answer equals the one that the same request gets alone, bit for bit, and afterwards
// nothing is held any more.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <random>

#include "engine/text_kit.h"
#include "server/http_testing.h"
#include "server/server.h"
#include "sim/poisoned_device.h"
#include "text/chat.h"

namespace evros::server {
namespace {

namespace json = boost::json;

constexpr int32_t kPoison = 3001;  // an ordinary token that no prompt below holds
constexpr int kClients = 32;

engine::EngineOptions engine_options(int32_t sessions, int32_t batch) {
  engine::EngineOptions options;
  options.context = 512;
  options.sessions = sessions;
  options.batch = batch;
  options.chunk = 64;
  return options;
}

// A model with a poisoned token behind a server on a free port.
class Served {
 public:
  Served(int32_t sessions, int32_t batch) : descriptors_(test::open_descriptors()) {
    auto poisoned = std::make_unique<sim::PoisonedDevice>(device::make_host_device(device::thread_count(0)));
    sim::PoisonedDevice& device = *poisoned;
    auto engine =
        engine::Engine::load(io::real_io(), std::move(poisoned), std::string(EVROS_SOURCE_DIR) + "/models/evros-tiny",
                             engine_options(sessions, batch));
    EXPECT_TRUE(engine.ok()) << engine.error().message;
    engine_ = std::move(engine).value();
    const engine::SessionId session = *engine_->open();
    device.learn();
    EXPECT_FALSE(engine_->append(session, std::vector<int32_t>{kPoison}).ok()) << "the token is poisoned";
    EXPECT_TRUE(engine_->close(session).ok());

    ServiceOptions options;
    options.http.port = 0;
    options.http.body_bytes = 64 << 10;
    options.http.connections = 256;
    options.scheduler.queue = 128;
    options.names = {"tiny"};
    auto service = Service::start(*engine_, *engine::load_tokenizer(engine_->file()),
                                  *text::ChatFormat::create(engine::tokenizer_spec(engine_->file()).chat_template),
                                  io::real_io(), options);
    EXPECT_TRUE(service.ok()) << service.error().message;
    service_ = std::move(service).value();
    thread_ = std::thread([this] { service_->run(); });
  }
  ~Served() {
    EXPECT_TRUE(test::eventually([&] { return service_->stats().running == 0 && service_->stats().waiting == 0; }));
    const engine::SchedulerStats stats = service_->stats();
    EXPECT_EQ(stats.slots_used, stats.slots_kept);
    EXPECT_EQ(stats.table_leases, 0);
    EXPECT_TRUE(stats.healthy);
    service_->drain();
    thread_.join();
    service_.reset();
    const state::Usage usage = engine_->store().usage();
    EXPECT_EQ(usage.slots, 1) << "the engine's spare one";
    EXPECT_EQ(usage.banks, 0);
    EXPECT_EQ(usage.pages, 0);
    engine_->store().check_consistency();
    engine_.reset();
    EXPECT_EQ(test::open_descriptors(), descriptors_);
  }

  uint16_t port() const { return service_->port(); }
  engine::SchedulerStats stats() const { return service_->stats(); }

 private:
  size_t descriptors_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Service> service_;
  std::thread thread_;
};

std::string post(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

struct Ask {
  std::string path;
  json::object body;
};

// What an answer says, without what differs between two runs: ids, times, and what was reused.
std::string said(const json::value& answer) {
  const json::object& usage = answer.at("usage").as_object();
  return json::serialize(answer.at("choices")) + json::serialize(usage.at("prompt_tokens")) +
         json::serialize(usage.at("completion_tokens"));
}

std::vector<Ask> asks() {
  std::vector<Ask> all;
  const std::vector<std::string> users = {"Tell me a story about a fox.", "Who is Tom?", "The cat sat on the mat. Why?",
                                          "Name three colours, and say which of them is the best one for a boat."};
  for (size_t i = 0; i < users.size(); ++i) {
    json::object chat{{"messages", json::array{json::object{{"role", "user"}, {"content", users[i]}}}},
                      {"max_tokens", 12 + static_cast<int>(i) * 5},
                      {"seed", i},
                      {"temperature", i % 2 == 0 ? 0.0 : 0.9}};
    all.push_back({"/v1/chat/completions", chat});
    chat["enable_thinking"] = false;
    chat["logprobs"] = true;
    chat["top_logprobs"] = 2;
    all.push_back({"/v1/chat/completions", chat});
    all.push_back({"/v1/completions", json::object{{"prompt", users[i]},
                                                   {"max_tokens", 16},
                                                   {"n", 2},
                                                   {"seed", 40 + i},
                                                   {"temperature", 1.1},
                                                   {"frequency_penalty", 0.5},
                                                   {"logprobs", 1}}});
  }
  return all;
}

// The whole answer; asked again when the server is full.
test::Answer whole(uint16_t port, const Ask& ask) {
  while (true) {
    test::Client client(port);
    EXPECT_TRUE(client.send(post(ask.path, json::serialize(ask.body))));
    test::Answer answer = client.read_answer();
    if (answer.status != 429 && answer.status != 503) return answer;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// The texts of all choices, put together from a stream that is read slowly or not.
std::map<int64_t, std::string> streamed(uint16_t port, Ask ask, std::chrono::milliseconds pause) {
  ask.body["stream"] = true;
  std::map<int64_t, std::string> texts;
  test::Client client(port, 4096);
  EXPECT_TRUE(client.send(post(ask.path, json::serialize(ask.body))));
  const test::Answer head = client.read_answer(true);
  EXPECT_EQ(head.status, 200);
  std::string events;
  while (auto chunk = client.read_chunk()) {
    if (chunk->empty()) break;
    events += *chunk;
    std::this_thread::sleep_for(pause);
  }
  EXPECT_TRUE(events.ends_with("data: [DONE]\n\n")) << events.substr(events.size() > 300 ? events.size() - 300 : 0);
  for (size_t at = 0; (at = events.find("data: {", at)) != std::string::npos;) {
    const size_t end = events.find("\n\n", at);
    const json::value event = json::parse(events.substr(at + 6, end - at - 6));
    at = end;
    for (const json::value& choice : event.at("choices").as_array()) {
      const json::object& shown = choice.as_object();
      std::string& text = texts[choice.at("index").to_number<int64_t>()];
      if (const json::value* plain = shown.if_contains("text")) text += plain->as_string();
      const json::value* delta = shown.if_contains("delta");
      if (delta == nullptr) continue;
      for (const char* key : {"reasoning_content", "content"}) {
        const json::value* part = delta->as_object().if_contains(key);
        if (part != nullptr && part->is_string()) text += part->as_string();
      }
    }
  }
  return texts;
}

std::map<int64_t, std::string> texts_of(const json::value& answer) {
  std::map<int64_t, std::string> texts;
  for (const json::value& choice : answer.at("choices").as_array()) {
    std::string& text = texts[choice.at("index").to_number<int64_t>()];
    if (const json::value* plain = choice.as_object().if_contains("text")) text += plain->as_string();
    const json::value* message = choice.as_object().if_contains("message");
    if (message == nullptr) continue;
    for (const char* key : {"reasoning_content", "content"}) {
      const json::value* part = message->as_object().if_contains(key);
      if (part != nullptr && part->is_string()) text += part->as_string();
    }
  }
  return texts;
}

class ServerLoad : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Served solo(2, 2);  // one after another: nobody else is there
    for (const Ask& ask : asks()) {
      const test::Answer answer = whole(solo.port(), ask);
      ASSERT_EQ(answer.status, 200) << answer.body;
      alone_.push_back(json::parse(answer.body));
    }
  }

  // One thing that a client does, by number.
  void act(uint16_t port, int what, size_t which) {
    const Ask ask = asks_[which];
    switch (what) {
      case 0: {
        const test::Answer answer = whole(port, ask);
        ASSERT_EQ(answer.status, 200) << answer.body;
        EXPECT_EQ(said(json::parse(answer.body)), said(alone_[which])) << json::serialize(ask.body);
        return;
      }
      case 1:
        EXPECT_EQ(streamed(port, ask, std::chrono::milliseconds(0)), texts_of(alone_[which]));
        return;
      case 2:
        EXPECT_EQ(streamed(port, ask, std::chrono::milliseconds(15)), texts_of(alone_[which]));
        return;
      case 3:
        return leave(port, ask, which);
      case 4:
        return nonsense(port);
      default:
        return poison(port, ask);
    }
  }

  // Goes away before the answer, or in the middle of it; closes or resets.
  static void leave(uint16_t port, Ask ask, size_t which) {
    ask.body["stream"] = true;
    ask.body["max_tokens"] = 300;
    ask.body["ignore_eos"] = true;
    test::Client client(port);
    EXPECT_TRUE(client.send(post(ask.path, json::serialize(ask.body))));
    if (which % 3 != 0) {
      (void)client.read_answer(true);
      for (size_t i = 0; i < which; ++i) (void)client.read_chunk();
    }
    if (which % 2 == 0) client.reset();
  }

  static void nonsense(uint16_t port) {
    test::Client oversized(port), broken(port), endless(port), garbage(port);
    EXPECT_TRUE(
        oversized.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       "Content-Length: 1000000000\r\n\r\n"));
    EXPECT_EQ(oversized.read_answer().status, 413);
    EXPECT_TRUE(broken.send(post("/v1/completions", R"({"prompt": "a", )")));
    EXPECT_EQ(broken.read_answer().status, 400);
    EXPECT_TRUE(endless.send(post("/v1/completions", R"({"prompt": "a", "max_tokens": 100000})")));
    EXPECT_EQ(endless.read_answer().status, 400);
    EXPECT_TRUE(garbage.send("\x16\x03\x01\x02\x00 nonsense\r\n\r\n"));
    EXPECT_EQ(garbage.read_answer().status, 400);
  }

  // The error of what cannot be computed; a stream that had not begun says so with its status.
  static void poison(uint16_t port, Ask ask) {
    ask.path = "/v1/completions";
    ask.body = {{"prompt", json::array{300, 17, kPoison, 9}}, {"max_tokens", 5}};
    const test::Answer answer = whole(port, ask);
    EXPECT_EQ(answer.status, 500) << answer.body;
    EXPECT_NE(answer.body.find("\"error\""), std::string::npos);
  }

  static std::vector<json::value> alone_;
  const std::vector<Ask> asks_ = asks();
};
std::vector<json::value> ServerLoad::alone_;

TEST_F(ServerLoad, EveryAnswerIsTheOneItGetsAloneAndNothingIsHeldAfterwardsSlow) {
  Served served(10, 4);
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      std::mt19937 random(static_cast<uint32_t>(c) + 1);
      for (int round = 0; round < 5; ++round) {
        const int what = (c + round) % 6;
        act(served.port(), what, random() % asks_.size());
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(test::eventually([&] { return served.stats().running == 0 && served.stats().waiting == 0; }));
  const engine::SchedulerStats stats = served.stats();
  EXPECT_GT(stats.cancelled, 0u);
  EXPECT_GT(stats.failed, 0u) << "the poisoned ones";
  EXPECT_GT(stats.reused_tokens, 0u);
}

}  // namespace
}  // namespace evros::server
