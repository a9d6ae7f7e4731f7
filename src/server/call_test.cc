// The life of one completion, event by event: what a client gets and when, with the HTTP side played by hand. The scheduler is
// a real one whose thread the tests run, or do not run, as they like.
#include "server/call.h"

#include <gtest/gtest.h>

#include <thread>

#include "engine/text_kit.h"
#include "server/openai_request.h"
#include "server/server_testing.h"

namespace evros::server {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

/// What a client would have got.
struct Seen {
  std::optional<HttpResponse> whole;
  bool began = false, ended = false;
  std::string stream;
};

class FakeExchange : public Exchange {
 public:
  explicit FakeExchange(Seen& seen) : seen_(seen) {
    request_.method = "POST";
    request_.path = "/v1/completions";
  }
  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override { seen_.whole = std::move(response); }
  void begin_stream(HttpResponse head) override {
    EXPECT_EQ(head.content_type, "text/event-stream");
    EXPECT_FALSE(std::exchange(seen_.began, true));
  }
  void send(std::string bytes) override {
    EXPECT_TRUE(seen_.began && !seen_.ended);
    seen_.stream += bytes;
  }
  void end_stream() override { EXPECT_FALSE(std::exchange(seen_.ended, true)); }
  bool has_room() const override { return room; }
  void on_gone(std::function<void()> callback) override { gone = std::move(callback); }
  void on_drained(std::function<void()> callback) override { drained = std::move(callback); }

  bool room = true;
  std::function<void()> gone, drained;

 private:
  Seen& seen_;
  HttpRequest request_;
};

class CallTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    engine::EngineOptions options;
    options.sessions = 4;
    options.batch = 2;
    options.context = 256;
    auto loaded = engine::Engine::load(io::real_io(), std::string(EVROS_SOURCE_DIR) + "/models/evros-tiny", options);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    engine_ = std::move(loaded).value().release();
  }
  static void TearDownTestSuite() { delete std::exchange(engine_, nullptr); }

  std::shared_ptr<Call> call(const std::string& fields) {
    Completion completion;
    const Refusal wrong =
        read_completions(R"({"prompt":"Once upon","temperature":0,)" + fields + "}", testing::tiny_text(), completion);
    EXPECT_FALSE(wrong) << wrong->message;
    exchange_ = std::make_shared<FakeExchange>(seen_);
    auto made =
        std::make_shared<Call>(CallRoom{scheduler_, io::real_io(), metrics_, draining_},
                               std::make_shared<Answer>(exchange_, metrics_, log_), std::move(completion), now_);
    return made;
  }
  /// Lets the engine do all its work.
  void work() {
    scheduler_.drain();
    scheduler_.run();
  }

  static inline engine::Engine* engine_ = nullptr;
  const uint64_t now_ = io::real_io().now_ns();
  engine::Scheduler scheduler_{*engine_, io::real_io(), testing::tiny_text().tokenizer, {}};
  Metrics metrics_;
  std::vector<std::string> lines_;
  const Log log_ = [this](std::string_view line) { lines_.emplace_back(line); };
  std::atomic<bool> draining_ = false;
  Seen seen_;
  std::shared_ptr<FakeExchange> exchange_;
};

TEST_F(CallTest, NothingIsSaidBeforeThePromptIsComputed) {
  const auto made = call(R"("stream":true,"max_tokens":3)");
  made->submit(0);
  EXPECT_FALSE(seen_.began || seen_.whole);
  EXPECT_FALSE(made->over());
}

TEST_F(CallTest, WhoWaitsLongIsToldThatTheServerLives) {
  const auto made = call(R"("stream":true,"max_tokens":3)");
  made->submit(0);
  made->keep_alive(now_ + 14 * kSecond);
  EXPECT_FALSE(seen_.began) << "an error may still come with its own status";
  made->keep_alive(now_ + 16 * kSecond);
  EXPECT_TRUE(seen_.began);
  EXPECT_EQ(seen_.stream, ": waiting\n\n");
  made->keep_alive(now_ + 30 * kSecond);
  EXPECT_EQ(seen_.stream, ": waiting\n\n");
  made->keep_alive(now_ + 31 * kSecond);
  EXPECT_EQ(seen_.stream, ": waiting\n\n: waiting\n\n");
  exchange_->room = false;
  made->keep_alive(now_ + 60 * kSecond);
  EXPECT_EQ(seen_.stream.size(), 2 * std::string(": waiting\n\n").size()) << "nothing for a reader that does not read";
}

TEST_F(CallTest, WholeAnswersAreNotBegunByWaiting) {
  const auto made = call(R"("max_tokens":3)");
  made->submit(0);
  made->keep_alive(now_ + 60 * kSecond);
  EXPECT_FALSE(seen_.began || seen_.whole);
}

TEST_F(CallTest, ARefusalHasItsStatus) {
  scheduler_.drain();
  const auto made = call(R"("stream":true)");
  draining_ = true;
  made->submit(0);
  ASSERT_TRUE(seen_.whole);
  EXPECT_FALSE(seen_.began);
  EXPECT_EQ(seen_.whole->status, 503);
  EXPECT_TRUE(made->over());
}

TEST_F(CallTest, AFailureBeforeTheStreamHasItsStatus) {
  const auto made = call(R"("stream":true)");
  made->submit(now_ - 1);  // too late already
  std::thread engine([this] { scheduler_.run(); });
  for (int i = 0; i < 5000 && !made->over(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  scheduler_.stop();
  engine.join();
  ASSERT_TRUE(seen_.whole);
  EXPECT_EQ(seen_.whole->status, 504);
}

TEST_F(CallTest, AFailureInTheStreamIsItsLastEvent) {
  const auto made = call(R"("stream":true)");
  made->submit(0);
  made->keep_alive(now_ + 16 * kSecond);
  work();  // waits still, so it is failed
  EXPECT_TRUE(seen_.ended);
  EXPECT_EQ(seen_.stream.find(": waiting\n\ndata: {\"error\":{"), 0u) << seen_.stream;
  EXPECT_EQ(seen_.stream.find("[DONE]"), std::string::npos);
}

TEST_F(CallTest, NothingIsSentToAClientThatLeft) {
  const auto made = call(R"("stream":true)");
  made->submit(0);
  exchange_->gone();
  EXPECT_TRUE(made->over());
  work();
  EXPECT_FALSE(seen_.began || seen_.whole);
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_NE(lines_[0].find("the client left"), std::string::npos) << lines_[0];
}

TEST_F(CallTest, AClientThatLeftBeforeSubmissionCostsNothing) {
  const auto made = call(R"("stream":true)");
  exchange_->gone = nullptr;
  made->submit(0);
  exchange_->gone();
  exchange_->gone();
  EXPECT_EQ(lines_.size(), 1u);
}

TEST_F(CallTest, AReplyIsOneLineInTheLog) {
  const auto made = call(R"("max_tokens":3)");
  made->submit(0);
  std::thread engine([this] { scheduler_.run(); });
  for (int i = 0; i < 20000 && !made->over(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  scheduler_.stop();
  engine.join();
  ASSERT_TRUE(seen_.whole);
  EXPECT_EQ(seen_.whole->status, 200);
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0].find("POST /v1/completions 200 req-"), 0u) << lines_[0];
  EXPECT_NE(lines_[0].find("prompt 2 (0 cached, 2 new), drawn 3, first token after "), std::string::npos) << lines_[0];
  EXPECT_NE(lines_[0].find(" tokens/s; length"), std::string::npos) << lines_[0];
}

}  // namespace
}  // namespace evros::server
