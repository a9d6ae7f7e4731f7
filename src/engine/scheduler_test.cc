// Requests that run together must each be what they are alone, and leave nothing behind. The expected replies come from
// reply() on an engine that does one thing at a time.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "engine/engine_testing.h"
#include "engine/text_kit.h"

namespace evros::engine {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

struct Told {
  std::vector<Started> started;
  std::map<int32_t, std::string> text, thinking;
  std::map<int32_t, std::vector<ShownToken>> tokens;
  std::map<int32_t, ReplyEnd> ends;
  std::optional<Error> error;
  bool over = false;
};

// Collects what it is told; may have no room, may cancel at a token.
class Recorder : public Listener {
 public:
  void started(const Started& started) override {
    change([&] { told_.started.push_back(started); });
  }
  void piece(int32_t choice, const Piece& piece) override {
    change([&] {
      EXPECT_FALSE(told_.over) << "a piece after the last event";
      (piece.thinking ? told_.thinking : told_.text)[choice] += piece.text;
      auto& tokens = told_.tokens[choice];
      tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
    });
    if (on_piece) on_piece();
  }
  void ended(const ReplyEnd& end) override {
    change([&] { told_.ends[end.choice] = end; });
  }
  void done() override { finish({}); }
  void failed(const Error& error) override { finish(error); }
  bool has_room() const override { return room; }

  Told wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(600), [&] { return told_.over; })) << "no last event";
    return told_;
  }
  /// Waits until `n` tokens were told of.
  void wait_tokens(size_t n) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(600), [&] { return told_.over || told_.tokens[0].size() >= n; }));
  }
  size_t tokens() {
    const std::lock_guard lock(mutex_);
    return told_.tokens[0].size();
  }

  std::atomic<bool> room = true;
  std::function<void()> on_piece;

 private:
  void finish(std::optional<Error> error) {
    change([&] {
      EXPECT_FALSE(told_.over) << "a second last event";
      told_.error = std::move(error);
      told_.over = true;
    });
  }
  template <typename Act>
  void change(const Act& act) {
    const std::lock_guard lock(mutex_);
    act();
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  Told told_;
};

const std::string kTiny = std::string(EVROS_SOURCE_DIR) + "/models/evros-tiny";

std::unique_ptr<Engine> load_tiny(const EngineOptions& options) {
  auto engine = Engine::load(io::real_io(), kTiny, options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(engine).value();
}

EngineOptions serving() {
  EngineOptions options;
  options.context = 512;
  options.sessions = 10;
  options.batch = 4;
  options.chunk = 32;
  return options;
}

EngineOptions lonely() {
  EngineOptions options;
  options.context = 512;
  return options;
}

// The scheduler with its thread.
class SchedulerTest : public ::testing::Test {
 protected:
  void start(const EngineOptions& engine_options = serving(), const SchedulerOptions& options = {}) {
    engine_ = load_tiny(engine_options);
    tokenizer_ = *load_tokenizer(engine_->file());
    scheduler_ = std::make_unique<Scheduler>(*engine_, io::real_io(), *tokenizer_, options);
    thread_ = std::thread([this] { scheduler_->run(); });
  }
  void TearDown() override {
    if (!scheduler_) return;
    scheduler_->stop();
    thread_.join();
    const SchedulerStats stats = scheduler_->stats();
    EXPECT_EQ(stats.running, 0);
    EXPECT_EQ(stats.waiting, 0);
    EXPECT_EQ(stats.slots_used, 0);
    EXPECT_EQ(stats.pages_used, 0);
    EXPECT_EQ(stats.banks_used, 0);
    EXPECT_EQ(stats.table_leases, 0);
    engine_->store().check_consistency();
  }

  std::vector<int32_t> encode(std::string_view text) { return *tokenizer_->encode(text); }

  Request request(std::string_view prompt, int64_t max_tokens = 24) {
    Request request;
    request.prompt = encode(prompt);
    request.reply.max_tokens = max_tokens;
    request.reply.ignore_eos = true;
    return request;
  }

  static void sample_at(Request& request, float temperature, uint64_t seed) {
    request.reply.sampling.temperature = temperature;
    request.reply.sampling.seed = seed;
  }

  std::shared_ptr<Recorder> submit(const Request& request, RequestId* id = nullptr) {
    auto recorder = std::make_shared<Recorder>();
    const auto submitted = scheduler_->submit(request, recorder);
    EXPECT_TRUE(submitted.ok()) << submitted.error().message;
    if (id != nullptr && submitted.ok()) *id = *submitted;
    return recorder;
  }

  // What the request gives alone, in an engine of its own.
  std::string alone(const Request& request, uint32_t choice = 0) {
    if (!solo_) solo_ = load_tiny(lonely());
    const SessionId session = *solo_->open();
    ReplyParams params = request.reply;
    params.sampling.choice = choice;
    const auto result = reply(*solo_, io::real_io(), session, request.prompt, params, *tokenizer_, {});
    EXPECT_TRUE(result.ok()) << result.error().message;
    EXPECT_TRUE(solo_->close(session).ok());
    return result->text;
  }

  SchedulerStats settled() {  // once nothing runs any more
    for (int i = 0; i < 1000 && (scheduler_->stats().running > 0 || scheduler_->stats().waiting > 0); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return scheduler_->stats();
  }

  std::unique_ptr<Engine> engine_, solo_;
  std::optional<text::Tokenizer> tokenizer_;
  std::unique_ptr<Scheduler> scheduler_;
  std::thread thread_;
};

const std::vector<std::string> kPrompts = {
    "Once upon a time",
    "The little fox ran to the",
    "Tom had a red ball. One day he",
    "Lily and her mom went",
    "It was raining, and the dog",
    "A bird sat on the tree and sang to the whole forest. Then the bear came and"};

TEST_F(SchedulerTest, RequestsThatRunTogetherEqualThemselvesAlone) {
  start();
  std::vector<Request> requests;
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (size_t i = 0; i < 12; ++i) {
    Request one = request(kPrompts[i % kPrompts.size()], 8 + static_cast<int64_t>(i) * 3);
    if (i % 2 == 1) sample_at(one, 0.9f, i);
    if (i % 3 == 2) one.reply.sampling.repetition_penalty = 1.3f;
    requests.push_back(one);
    recorders.push_back(submit(one));
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    const Told told = recorders[i]->wait();
    ASSERT_FALSE(told.error.has_value()) << told.error->message;
    EXPECT_EQ(told.text.at(0), alone(requests[i])) << i;
    EXPECT_EQ(told.ends.at(0).finish, Finish::length);
    EXPECT_EQ(told.ends.at(0).tokens, requests[i].reply.max_tokens);
  }
}

TEST_F(SchedulerTest, EveryCopyOfOnePromptIsTheReplyOfItsNumber) {
  start();
  Request one = request("The dragon said", 20);
  sample_at(one, 1.2f, 7);
  one.n = 4;
  const Told told = submit(one)->wait();
  ASSERT_FALSE(told.error.has_value()) << told.error->message;
  ASSERT_EQ(told.ends.size(), 4u);
  for (int32_t i = 0; i < 4; ++i) EXPECT_EQ(told.text.at(i), alone(one, static_cast<uint32_t>(i))) << i;
  EXPECT_NE(told.text.at(0), told.text.at(1));
}

TEST_F(SchedulerTest, APromptThatContinuesAReplyComputesOnlyWhatIsNew) {
  start();
  const Request first = request("Once upon a time", 20);
  const Told told = submit(first)->wait();
  Request second = first;
  for (const ShownToken& token : told.tokens.at(0)) second.prompt.push_back(token.drawn.id);
  const auto history = static_cast<int64_t>(second.prompt.size());
  for (const int32_t id : encode(" And then the king")) second.prompt.push_back(id);
  const Told continued = submit(second)->wait();
  EXPECT_EQ(continued.started.at(0).reused_tokens, history - 1) << "all but the last token, which was never appended";
  EXPECT_EQ(continued.started.at(0).diverged_at, -1);
  EXPECT_EQ(continued.text.at(0), alone(second));
  // The same again computes nothing, or almost nothing, and says the same.
  const Told again = submit(second)->wait();
  EXPECT_EQ(again.started.at(0).reused_tokens, static_cast<int64_t>(second.prompt.size()));
  EXPECT_EQ(again.text.at(0), continued.text.at(0));
}

TEST_F(SchedulerTest, APromptThatPartsFromAKeptOneStartsWhereItWasKept) {
  start();
  Request first = request("Tom had a red ball. One day he lost it in the park", 10);
  const std::vector<int32_t> beginning = encode("Tom had a red ball.");
  const auto shared = static_cast<int64_t>(beginning.size());
  ASSERT_TRUE(std::equal(beginning.begin(), beginning.end(), first.prompt.begin()));
  first.keep_at = {shared};
  submit(first)->wait();
  const Request second = request("Tom had a red ball. One day he gave it away", 10);
  const Told told = submit(second)->wait();
  EXPECT_EQ(told.started.at(0).reused_tokens, shared);
  const auto parts = std::mismatch(first.prompt.begin(), first.prompt.end(), second.prompt.begin());
  EXPECT_EQ(told.started.at(0).diverged_at, parts.first - first.prompt.begin());
  EXPECT_EQ(told.text.at(0), alone(second));
}

TEST_F(SchedulerTest, ACancelledRequestLeavesTheOthersAndTheNextTurnAsTheyWere) {
  start();
  Request other = request(kPrompts[1], 60);
  const auto bystander = submit(other);
  const Request doomed = request(kPrompts[0], 400);
  RequestId id = 0;
  const auto recorder = submit(doomed, &id);
  recorder->wait_tokens(5);
  scheduler_->cancel(id);
  const Told told = recorder->wait();
  ASSERT_TRUE(told.error.has_value());
  EXPECT_EQ(told.error->code, Code::cancelled);
  EXPECT_EQ(bystander->wait().text.at(0), alone(other));
  Request next = doomed;
  next.reply.max_tokens = 12;
  EXPECT_EQ(submit(next)->wait().text.at(0), alone(next));
  EXPECT_EQ(settled().cancelled, 1u);
}

TEST_F(SchedulerTest, ACancelledPrefillEndsAtOnceAndItsStartIsWorthKeeping) {
  EngineOptions options = serving();
  options.context = 4096;
  options.chunk = 1024;
  start(options);
  std::string text;
  for (int i = 0; i < 400; ++i) text += kPrompts[static_cast<size_t>(i) % kPrompts.size()];
  const Request big = request(text, 1);
  RequestId id = 0;
  const auto recorder = submit(big, &id);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto asked = std::chrono::steady_clock::now();
  scheduler_->cancel(id);
  const Told told = recorder->wait();
  EXPECT_LT(std::chrono::steady_clock::now() - asked, std::chrono::seconds(1));
  ASSERT_TRUE(told.error.has_value());
  EXPECT_TRUE(told.started.empty());
}

TEST_F(SchedulerTest, AReaderWithoutRoomHoldsUpNobodyElse) {
  start();
  const Request slow = request(kPrompts[2], 40), quick = request(kPrompts[3], 40);
  auto stuck = std::make_shared<Recorder>();
  stuck->room = false;
  ASSERT_TRUE(scheduler_->submit(slow, stuck).ok());
  EXPECT_EQ(submit(quick)->wait().text.at(0), alone(quick));
  EXPECT_EQ(stuck->tokens(), 0u);
  EXPECT_EQ(scheduler_->stats().running, 1) << "the end that was told of is counted already";
  stuck->room = true;
  scheduler_->wake();
  EXPECT_EQ(stuck->wait().text.at(0), alone(slow));
}

TEST_F(SchedulerTest, RefusalsComeBeforeAnyWorkAndHaveNumbers) {
  EngineOptions small = serving();
  small.pool_tokens = 512;  // one context, and a page for each slot
  start(small, {.queue = 2});
  const auto refused = [&](Request request, Code code, const std::string& number) {
    const auto result = scheduler_->submit(std::move(request), std::make_shared<Recorder>());
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, code) << result.error().message;
    EXPECT_NE(result.error().message.find(number), std::string::npos) << result.error().message;
  };
  refused(request("", 5), Code::invalid_argument, "at least one");
  Request one = request("Hello", 5);
  one.n = 5;
  refused(one, Code::invalid_argument, "1 to 4");
  refused(request("Hello", 512), Code::invalid_argument, "512");
  one = request("Hello", 5);
  one.prompt[0] = 1 << 30;
  refused(one, Code::invalid_argument, "vocabulary");
  one = request("Hello", 5);
  one.keep_at = {0};
  refused(one, Code::invalid_argument, "keep_at");
  one = request("Hello", 400);
  one.n = 4;
  refused(one, Code::out_of_memory, "pages");
  // The queue: what runs is not counted, what waits is.
  std::vector<std::shared_ptr<Recorder>> stuck;
  for (int i = 0; i < 3; ++i) {
    stuck.push_back(std::make_shared<Recorder>());
    stuck.back()->room = false;
    ASSERT_TRUE(scheduler_->submit(request(kPrompts[0], 400), stuck.back()).ok()) << i;
    for (int j = 0; j < 1000 && i < 2 && scheduler_->stats().running <= i; ++j) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  // Two may wait, and as many more as places are thought free: up to two, until the scheduler has seen that pages are not.
  auto last = scheduler_->submit(request(kPrompts[1], 400), std::make_shared<Recorder>());
  ASSERT_TRUE(last.ok());
  for (int i = 0; i < 3 && last.ok(); ++i) last = scheduler_->submit(request("Hello", 5), std::make_shared<Recorder>());
  ASSERT_FALSE(last.ok());
  EXPECT_EQ(last.error().code, Code::busy);
  EXPECT_NE(last.error().message.find("and 2 may"), std::string::npos) << last.error().message;
  EXPECT_EQ(scheduler_->stats().running, 2) << "two of 400 tokens fit into the pool, three do not";
  EXPECT_EQ(scheduler_->stats().refused, 7u);
}

// However the length of a reply is said: prompt and reply together fill the context and are never longer.
TEST_F(SchedulerTest, AReplyWithoutALengthEndsWhereTheLongestOneThatMayBeAskedForDoes) {
  start();
  Request open_ended = request(kPrompts[0], -1);
  const std::vector<int32_t> once = open_ended.prompt;
  while (open_ended.prompt.size() < 500) open_ended.prompt.push_back(once[open_ended.prompt.size() % once.size()]);
  const auto room = static_cast<int64_t>(512 - open_ended.prompt.size());
  Request asked = open_ended;
  asked.reply.max_tokens = room;
  const Told until_full = submit(open_ended)->wait(), exactly = submit(asked)->wait();
  EXPECT_EQ(until_full.ends.at(0).tokens, room);
  EXPECT_EQ(exactly.ends.at(0).tokens, room);
  EXPECT_EQ(until_full.text, exactly.text);
  EXPECT_EQ(until_full.ends.at(0).finish, Finish::context_full);
  EXPECT_EQ(exactly.ends.at(0).finish, Finish::length);
  EXPECT_EQ(alone(open_ended), until_full.text.at(0)) << "a reply outside a scheduler ends there too";
  asked.reply.max_tokens = room + 1;
  EXPECT_FALSE(scheduler_->submit(asked, std::make_shared<Recorder>()).ok());
  open_ended.prompt.resize(512, 5);
  EXPECT_FALSE(scheduler_->submit(open_ended, std::make_shared<Recorder>()).ok()) << "no room for a reply";
}

TEST_F(SchedulerTest, ABurstThatNobodyHasToWaitForIsNotRefused) {
  start(serving(), {.queue = 1});
  for (int round = 0; round < 5; ++round) {
    std::vector<std::shared_ptr<Recorder>> burst;
    for (int i = 0; i < 5; ++i) burst.push_back(submit(request("Hello", 2)));  // four places, and one may wait
    for (const auto& recorder : burst) EXPECT_FALSE(recorder->wait().error.has_value());
    ASSERT_TRUE(settled().running == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

TEST_F(SchedulerTest, WhatWasAdmittedNeverRunsOutOfPages) {
  EngineOptions small = serving();
  small.context = small.pool_tokens = 256;
  start(small);
  std::vector<std::shared_ptr<Recorder>> recorders;
  std::vector<Request> requests;
  for (size_t i = 0; i < 8; ++i) {
    requests.push_back(request(kPrompts[i % kPrompts.size()], 30 + static_cast<int64_t>(i) * 7));
    requests.back().n = 1 + static_cast<int32_t>(i % 3);
    requests.back().keep_at = {2, 3};
    recorders.push_back(submit(requests.back()));
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    const Told told = recorders[i]->wait();
    ASSERT_FALSE(told.error.has_value()) << i << ": " << told.error->message;
    EXPECT_EQ(told.text.at(0), alone(requests[i])) << i;
  }
}

TEST_F(SchedulerTest, ADeadlineEndsARequestWhereverItStands) {
  start();
  Request late = request(kPrompts[0], 480);
  late.deadline_ns = io::real_io().now_ns() + kSecond / 4;
  auto stuck = std::make_shared<Recorder>();
  stuck->room = false;
  ASSERT_TRUE(scheduler_->submit(late, stuck).ok());
  const Told told = stuck->wait();
  ASSERT_TRUE(told.error.has_value());
  EXPECT_EQ(told.error->code, Code::timeout);
}

TEST_F(SchedulerTest, DrainingLetsWhatRunsEndAndRefusesTheRest) {
  start();
  const Request one = request(kPrompts[0], 100);
  const auto recorder = submit(one);
  recorder->wait_tokens(1);
  scheduler_->drain();
  const auto refused = scheduler_->submit(one, std::make_shared<Recorder>());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::busy);
  EXPECT_EQ(recorder->wait().text.at(0), alone(one));
  thread_.join();
  thread_ = std::thread([] {});
}

TEST_F(SchedulerTest, StoppingEndsEveryRequestWithAnError) {
  start();
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (int i = 0; i < 8; ++i) recorders.push_back(submit(request(kPrompts[0], 400)));
  recorders[0]->wait_tokens(1);
  scheduler_->stop();
  for (const auto& recorder : recorders) EXPECT_TRUE(recorder->wait().error.has_value());
}

TEST_F(SchedulerTest, ThinkingIsToldApartAndItsBudgetIsKept) {
  start();
  Request one = request("<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n", 60);
  Thinking& thinking = one.reply.thinking;
  thinking = {-1, *tokenizer_->find("</think>"), true, 5, encode("\n</think>\n\n")};
  const Told told = submit(one)->wait();
  ASSERT_FALSE(told.error.has_value()) << told.error->message;
  EXPECT_LE(told.ends.at(0).thinking_tokens, 5 + 2) << "and a line end and the tag";
  EXPECT_GT(told.ends.at(0).tokens, told.ends.at(0).thinking_tokens);
  EXPECT_FALSE(told.text.at(0).empty());
  EXPECT_EQ(told.thinking.at(0).find("</think>"), std::string::npos);
  // What was put in is history like what was drawn: a prompt that holds it all gives the same answer.
  Request whole = one;
  whole.reply.thinking = {};
  const auto& tokens = told.tokens.at(0);
  size_t end = 0;
  while (tokens[end].drawn.id != thinking.end_id) ++end;
  ASSERT_EQ(thinking.closing.back(), tokens[end + 1].drawn.id) << "two line ends";
  for (size_t i = 0; i <= end + 1; ++i) whole.prompt.push_back(tokens[i].drawn.id);
  whole.reply.max_tokens = 60 - static_cast<int64_t>(end) - 2;
  EXPECT_EQ(told.text.at(0), "\n\n" + alone(whole));
}

TEST_F(SchedulerTest, LogprobsAreOfTheModelsOwnDistribution) {
  start();
  Request one = request(kPrompts[0], 6);
  one.reply.top_logprobs = 3;
  one.reply.sampling.temperature = 0;
  const Told told = submit(one)->wait();
  const SessionId session = *(solo_ ? solo_ : solo_ = load_tiny(lonely()))->open();
  std::vector<int32_t> history = one.prompt;
  std::vector<float> logits(static_cast<size_t>(solo_->model().hyper.vocab));
  for (const ShownToken& token : told.tokens.at(0)) {
    ASSERT_TRUE(solo_->rewrite(session, 0, history).ok());
    ASSERT_TRUE(solo_->logits(session, logits).ok());
    double sum = 0;
    for (const float l : logits) sum += std::exp(double{l});
    ASSERT_EQ(token.top.size(), 3u);
    EXPECT_EQ(token.top[0].id, token.drawn.id) << "greedy draws the most probable";
    for (const TokenLogprob& top : token.top) {
      EXPECT_NEAR(top.logprob, double{logits[static_cast<size_t>(top.id)]} - std::log(sum), 1e-5);
    }
    EXPECT_GE(token.top[0].logprob, token.top[1].logprob);
    EXPECT_GE(token.top[1].logprob, token.top[2].logprob);
    history.push_back(token.drawn.id);
  }
}

TEST_F(SchedulerTest, AStopStringIsInNoPieceAndNoToken) {
  start();
  Request plain = request(kPrompts[0], 40);
  const std::string text = alone(plain);
  const std::string stop = text.substr(text.size() / 2, 4);
  const std::string before = text.substr(0, text.find(stop));
  Request one = plain;
  one.reply.stop = {"never in here \xf0\x9f\x90\x98", stop};
  const Told told = submit(one)->wait();
  EXPECT_EQ(told.text.at(0), before);
  EXPECT_EQ(told.ends.at(0).finish, Finish::stop_string);
  EXPECT_EQ(told.ends.at(0).stop, 1);
  std::vector<int32_t> ids;
  for (const ShownToken& token : told.tokens.at(0)) ids.push_back(token.drawn.id);
  EXPECT_TRUE(tokenizer_->decode(ids)->starts_with(before));
  EXPECT_LE(static_cast<int64_t>(ids.size()), told.ends.at(0).tokens);
}

}  // namespace
}  // namespace evros::engine
