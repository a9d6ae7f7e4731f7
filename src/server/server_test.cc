// The whole server on the bundled model, over loopback: what clients get is compared with what the engine says alone.
#include "server/server.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <regex>
#include <set>
#include <thread>

#include "engine/reply.h"
#include "engine/text_kit.h"
#include "server/http_testing.h"
#include "server/server_testing.h"

namespace evros::server {
namespace {

namespace json = boost::json;
using test::Client;

constexpr double kPatience = 300;  // seconds: sanitizers on a busy machine
constexpr const char* kStory = R"("messages":[{"role":"user","content":"Tell me a story."}])";

std::string request(std::string_view method, std::string_view path, std::string_view body = "",
                    std::string_view more = "") {
  std::string out =
      std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(more);
  if (method == "POST")
    out += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  return out + "\r\n" + std::string(body);
}

struct Running {
  explicit Running(ServiceOptions options = {}, int32_t parallel = 2, int32_t cached = 4) {
    engine::EngineOptions engine_options;
    engine_options.sessions = parallel + cached;
    engine_options.batch = parallel;
    engine_options.context = 512;
    auto loaded =
        engine::Engine::load(io::real_io(), std::string(EVROS_SOURCE_DIR) + "/models/evros-tiny", engine_options);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    engine = std::move(loaded).value();
    auto chat = text::ChatFormat::create(engine::tokenizer_spec(engine->file()).chat_template);
    options.http.port = 0;
    options.names = {"tiny"};
    auto started =
        Service::start(*engine, engine::load_tokenizer(engine->file()).value(), *chat, io::real_io(), options);
    EXPECT_TRUE(started.ok()) << started.error().message;
    service = std::move(started).value();
    thread = std::thread([this] { service->run(); });
  }
  ~Running() { stop(); }
  void stop() {
    if (!thread.joinable()) return;
    service->stop();
    thread.join();
  }

  test::Answer ask(std::string_view method, std::string_view path, std::string_view body = "",
                   std::string_view more = "") {
    Client client(service->port());
    client.send(request(method, path, body, more));
    EXPECT_TRUE(client.readable(kPatience));
    return client.read_answer(method == "HEAD");
  }
  json::value post(std::string_view path, const std::string& body, int status = 200) {
    const test::Answer answer = ask("POST", path, body);
    EXPECT_EQ(answer.status, status) << body << "\n" << answer.body;
    return json::parse(answer.body);
  }
  json::value chat(const std::string& more) {
    return post("/v1/chat/completions", std::string("{") + kStory + "," + more + "}");
  }
  /// The events of a streamed answer, without "data: ".
  std::vector<std::string> stream(std::string_view path, const std::string& body) {
    return events(ask("POST", path, body).body);
  }
  static std::vector<std::string> events(const std::string& bytes) {
    std::vector<std::string> out;
    for (size_t at = 0; at < bytes.size();) {
      const size_t end = bytes.find("\n\n", at);
      EXPECT_NE(end, std::string::npos) << "a torn event";
      if (end == std::string::npos) break;
      out.push_back(bytes.substr(at + 6, end - at - 6));
      at = end + 2;
    }
    return out;
  }

  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<Service> service;
  std::thread thread;
};

/// One server for all tests that leave it as it was.
Running& shared() {
  static Running running;
  return running;
}

std::string content(const json::value& answer, size_t choice = 0) {
  return std::string(answer.at("choices").at(choice).at("message").at("content").as_string());
}

/// What the engine alone says, as `evros run --raw` does it.
engine::ReplyResult alone(const std::vector<int32_t>& prompt, const engine::ReplyParams& params) {
  static const auto engine = [] {
    engine::EngineOptions options;
    options.context = 512;
    return engine::Engine::load(io::real_io(), std::string(EVROS_SOURCE_DIR) + "/models/evros-tiny", options)
        .value()
        .release();
  }();
  const auto session = engine->open().value();
  auto result = engine::reply(*engine, io::real_io(), session, prompt, params, testing::tiny_text().tokenizer, {});
  EXPECT_TRUE(engine->close(session).ok());
  return result.value();
}

TEST(Service, RepliesAreTheEnginesOwn) {
  const std::vector<int32_t> prompt = testing::tiny_text().tokenizer.encode("Once upon a time").value();
  engine::ReplyParams params;
  params.max_tokens = 12;
  const std::string greedy = alone(prompt, params).text;
  const json::value answer =
      shared().post("/v1/completions", R"({"prompt":"Once upon a time","max_tokens":12,"temperature":0})");
  EXPECT_EQ(std::string(answer.at("choices").at(0).at("text").as_string()), greedy);
  EXPECT_EQ(answer.at("usage").at("prompt_tokens").as_int64(), static_cast<int64_t>(prompt.size()));
  EXPECT_EQ(answer.at("usage").at("completion_tokens").as_int64(), 12);

  params.sampling.temperature = 0.9f;
  params.sampling.top_k = 20;
  params.sampling.top_p = 0.9f;
  params.sampling.seed = 5;
  const json::value two = shared().post(
      "/v1/completions", R"({"prompt":"Once upon a time","max_tokens":12,"temperature":0.9,"seed":5,"n":2})");
  for (uint32_t choice = 0; choice < 2; ++choice) {
    params.sampling.choice = choice;
    EXPECT_EQ(std::string(two.at("choices").at(choice).at("text").as_string()), alone(prompt, params).text) << choice;
  }
}

TEST(Service, AStreamSaysWhatTheWholeSays) {
  const std::string fields = std::string(kStory) + R"(,"max_tokens":24,"seed":3,"n":2)";
  const json::value whole = shared().post("/v1/chat/completions", "{" + fields + "}");
  const auto events = shared().stream("/v1/chat/completions",
                                      "{" + fields + R"(,"stream":true,"stream_options":{"include_usage":true}})");
  std::string content[2], reasoning[2], finish[2];
  ASSERT_GE(events.size(), 4u);
  for (size_t i = 0; i + 2 < events.size(); ++i) {
    const json::value chunk = json::parse(events[i]);
    EXPECT_TRUE(chunk.at("usage").is_null());
    const json::value& choice = chunk.at("choices").at(0);
    const auto index = static_cast<size_t>(choice.at("index").as_int64());
    EXPECT_TRUE(finish[index].empty()) << "nothing after the finish";
    const json::object& delta = choice.at("delta").as_object();
    if (i < 2) {
      EXPECT_EQ(delta.at("role").as_string(), "assistant");
    }
    if (const auto* text = delta.if_contains("content")) content[index] += text->as_string().c_str();
    if (const auto* text = delta.if_contains("reasoning_content")) reasoning[index] += text->as_string().c_str();
    if (!choice.at("finish_reason").is_null()) finish[index] = choice.at("finish_reason").as_string().c_str();
  }
  for (size_t choice = 0; choice < 2; ++choice) {
    const json::value& message = whole.at("choices").at(choice).at("message");
    EXPECT_EQ(content[choice], message.at("content").as_string().c_str());
    EXPECT_EQ(reasoning[choice], message.at("reasoning_content").as_string().c_str());
    EXPECT_EQ(finish[choice], whole.at("choices").at(choice).at("finish_reason").as_string().c_str());
    EXPECT_FALSE(reasoning[choice].starts_with("\n") || reasoning[choice].ends_with("\n"));
  }
  const json::value last = json::parse(events[events.size() - 2]);
  EXPECT_TRUE(last.at("choices").as_array().empty());
  for (const char* key : {"prompt_tokens", "completion_tokens", "total_tokens"})
    EXPECT_EQ(last.at("usage").at(key), whole.at("usage").at(key)) << key;
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST(Service, ThinkingIsSwitchedOffAndBudgeted) {
  const json::value off = shared().chat(R"("max_tokens":20,"temperature":0,"enable_thinking":false)");
  EXPECT_FALSE(off.at("choices").at(0).at("message").as_object().contains("reasoning_content"));
  EXPECT_FALSE(content(off).empty());
  const json::value little = shared().chat(R"("max_tokens":30,"temperature":0,"thinking_budget":4)");
  EXPECT_FALSE(content(little).empty());
  EXPECT_LE(little.at("usage").at("completion_tokens_details").at("reasoning_tokens").as_int64(), 4 + 3)
      << "the budget and the closing tokens";
}

// A new turn shares the conversation up to the reply with the one before; what is reused changes no bit.
TEST(Service, TheNextTurnReusesTheLastOne) {
  Running fresh({}, 2, 4), cold({}, 2, 0);
  const std::string first =
      R"({"messages":[{"role":"user","content":"Tell me a story."}],"max_tokens":6,"temperature":0})";
  const std::string next =
      R"({"messages":[{"role":"user","content":"Tell me a story."},{"role":"assistant","content":"Once."},
          {"role":"user","content":"More."}],"max_tokens":6,"temperature":0})";
  const int64_t shared_tokens = fresh.post("/v1/chat/completions", first).at("usage").at("prompt_tokens").as_int64();
  const json::value again = fresh.post("/v1/chat/completions", next);
  const json::value& usage = again.at("usage");
  const int64_t cached = usage.at("prompt_tokens_details").at("cached_tokens").as_int64();
  const auto opening = testing::tiny_text().tokenizer.encode("<|im_start|>assistant\n<think>\n").value();
  EXPECT_EQ(cached, shared_tokens - static_cast<int64_t>(opening.size())) << "all but what opens the reply";
  EXPECT_EQ(usage.at("evros").at("reused_tokens").as_int64(), cached);
  EXPECT_EQ(usage.at("evros").at("new_tokens").as_int64(), usage.at("prompt_tokens").as_int64() - cached);
  EXPECT_EQ(again.at("choices"), cold.post("/v1/chat/completions", next).at("choices"));
}

TEST(Service, AClientThatLeavesIsForgottenWithinASecond) {
  Running running;
  Client client(running.service->port());
  client.send(request("POST", "/v1/completions", R"({"prompt":"Once","stream":true,"ignore_eos":true})"));
  ASSERT_EQ(client.read_answer(true).status, 200);
  ASSERT_TRUE(client.read_chunk());
  EXPECT_EQ(running.service->stats().running, 1);
  const auto left = test::Clock::now();
  client.close();
  EXPECT_TRUE(test::eventually([&] { return running.service->stats().running == 0; }));
  EXPECT_LT(test::seconds_since(left), 1.0);
  EXPECT_EQ(running.service->stats().cancelled, 1u);
}

TEST(Service, DrainLetsRepliesEndAndRefusesNewOnes) {
  Running running;
  Client client(running.service->port()), idle(running.service->port());
  client.send(
      request("POST", "/v1/completions", R"({"prompt":"Once","stream":true,"ignore_eos":true,"max_tokens":40})"));
  ASSERT_EQ(client.read_answer(true).status, 200);
  running.service->drain();
  EXPECT_EQ(running.ask("GET", "/health").status, 503);
  const test::Answer refused = running.ask("POST", "/v1/completions", R"({"prompt":"Once"})");
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(refused.headers.count("retry-after"));
  std::string bytes;
  while (auto chunk = client.read_chunk()) {
    if (chunk->empty()) break;
    bytes += *chunk;
  }
  EXPECT_EQ(Running::events(bytes).back(), "[DONE]");
  running.thread.join();
  EXPECT_TRUE(idle.closed_within(1)) << "every socket gets an end";
}

TEST(Service, StopEndsStreamsWithAnErrorAndWholeAnswersWith503) {
  Running running;
  Client stream(running.service->port()), whole(running.service->port());
  stream.send(request("POST", "/v1/completions", R"({"prompt":"Once","stream":true,"ignore_eos":true})"));
  ASSERT_EQ(stream.read_answer(true).status, 200);
  whole.send(request("POST", "/v1/completions", R"({"prompt":"Once","ignore_eos":true})"));
  ASSERT_TRUE(test::eventually([&] { return running.service->stats().running == 2; }));
  running.stop();
  std::string bytes;
  while (auto chunk = stream.read_chunk()) {
    if (chunk->empty()) break;
    bytes += *chunk;
  }
  const json::value last = json::parse(Running::events(bytes).back());
  EXPECT_EQ(last.at("error").at("code").as_string(), "shutting_down");
  EXPECT_EQ(whole.read_answer().status, 503);
}

TEST(Service, GraceEnds) {
  ServiceOptions options;
  options.grace_seconds = 0.2;
  Running running(options);
  Client client(running.service->port());
  client.send(request("POST", "/v1/completions", R"({"prompt":"Once","stream":true,"ignore_eos":true})"));
  ASSERT_EQ(client.read_answer(true).status, 200);
  const auto start = test::Clock::now();
  running.service->drain();
  running.thread.join();
  EXPECT_LT(test::seconds_since(start), 5);
  EXPECT_NE(client.rest().find("shutting_down"), std::string::npos);
}

TEST(Service, DeadlinesEndRequests) {
  const test::Answer late =
      shared().ask("POST", "/v1/completions", R"({"prompt":"Once","ignore_eos":true,"timeout":0.05})");
  EXPECT_EQ(late.status, 504) << late.body;
  ServiceOptions options;
  options.timeout_seconds = 0.05;
  Running strict(options);
  EXPECT_EQ(strict.ask("POST", "/v1/completions", R"({"prompt":"Once","ignore_eos":true,"timeout":500})").status, 504)
      << "the server's own limit holds";
}

TEST(Service, AFullQueueSays429) {
  ServiceOptions options;
  options.scheduler.queue = 1;
  Running running(options, 1, 1);
  std::vector<Client> clients;
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back(running.service->port());
    clients.back().send(request("POST", "/v1/completions", R"({"prompt":"Once","ignore_eos":true})"));
    ASSERT_TRUE(
        test::eventually([&] { return running.service->stats().running + running.service->stats().waiting > i; }));
    if (i == 0) {
      ASSERT_TRUE(test::eventually([&] { return running.service->stats().running == 1; }));
    }
  }
  const test::Answer refused = running.ask("POST", "/v1/completions", R"({"prompt":"Once"})");
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_TRUE(refused.headers.count("retry-after"));
  EXPECT_NE(refused.body.find("rate_limit_error"), std::string::npos);
}

// One of several prompts that is refused takes the others with it.
TEST(Service, BatchesOfPromptsAreOneRequest) {
  const json::value answer =
      shared().post("/v1/completions", R"({"prompt":["Once upon","The"],"n":2,"max_tokens":5,"temperature":0})");
  const json::array& choices = answer.at("choices").as_array();
  ASSERT_EQ(choices.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(choices[i].at("index").as_int64(), static_cast<int64_t>(i));
  EXPECT_EQ(choices[0].at("text"), choices[1].at("text")) << "greedy: both replies to one prompt";
  EXPECT_NE(choices[0].at("text"), choices[2].at("text"));
  ServiceOptions options;
  options.scheduler.queue = 1;
  Running narrow(options, 1, 1);
  const test::Answer refused =
      narrow.ask("POST", "/v1/completions", R"({"prompt":["a","b","c","d","e"],"ignore_eos":true})");
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_TRUE(test::eventually([&] { return narrow.service->stats().running + narrow.service->stats().waiting == 0; }));
}

TEST(Service, WrongRequestsHaveTheirStatus) {
  struct Case {
    const char *method, *path, *body, *more;
    int status;
  };
  const Case kTable[] = {
      {"GET", "/nothing", "", "", 404},
      {"GET", "/v1/models/", "", "", 404},
      {"GET", "/v1/models/other", "", "", 404},
      {"GET", "/v1/models/tiny", "", "", 200},
      {"HEAD", "/v1/models", "", "", 200},
      {"GET", "/v1/chat/completions", "", "", 405},
      {"DELETE", "/v1/models/tiny", "", "", 405},
      {"OPTIONS", "/v1/models", "", "", 204},
      {"POST", "/v1/completions", "{", "", 400},
      {"POST", "/v1/completions", "{}", "", 400},
      {"POST", "/v1/completions", R"({"prompt":"a","model":"other"})", "", 404},
      {"POST", "/tokenize", R"({"prompt":"a"})", "Origin: http://evil.example\r\n", 403},
      {"POST", "/tokenize", R"({"prompt":"a"})", "Origin: http://localhost\r\n", 200},
      {"POST", "/tokenize", R"({"prompt":"a"})", "Content-Encoding: gzip\r\n", 415},
      {"GET", "/", "", "", 200},
  };
  for (const Case& each : kTable) {
    const test::Answer answer = shared().ask(each.method, each.path, each.body, each.more);
    EXPECT_EQ(answer.status, each.status) << each.method << ' ' << each.path << ' ' << each.body << '\n' << answer.body;
    EXPECT_TRUE(answer.headers.count("x-request-id"));
    if (each.status == 405) {
      EXPECT_TRUE(answer.headers.count("allow"));
    }
    if (each.status >= 400 && std::string_view(each.method) != "HEAD") {
      EXPECT_TRUE(json::parse(answer.body).at("error").at("message").is_string());
    }
  }
  Client form(shared().service->port());
  form.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_EQ(form.read_answer().status, 415) << "what a page may send without asking first";
  Client rebound(shared().service->port());
  rebound.send("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(rebound.read_answer().status, 403);
}

TEST(Service, TheKeyGuardsAllButHealthAndPage) {
  ServiceOptions options;
  options.access.api_key = "secret";
  Running running(options);
  for (const char* open : {"/health", "/"}) EXPECT_EQ(running.ask("GET", open).status, 200) << open;
  for (const char* closed : {"/v1/models", "/status", "/metrics", "/v1/models/tiny"}) {
    EXPECT_EQ(running.ask("GET", closed).status, 401) << closed;
    EXPECT_EQ(running.ask("GET", closed, "", "Authorization: Bearer wrong\r\n").status, 401);
    EXPECT_EQ(running.ask("GET", closed, "", "Authorization: Bearer secret\r\n").status, 200);
  }
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"})
    EXPECT_EQ(running.ask("POST", path, "{}").status, 401) << path;
}

TEST(Service, RequestIdsComeBack) {
  EXPECT_EQ(shared().ask("GET", "/health", "", "X-Request-Id: abc-1\r\n").headers["x-request-id"], "abc-1");
  const std::string made = shared().ask("GET", "/health", "", "X-Request-Id: a b\r\n").headers["x-request-id"];
  EXPECT_EQ(made.substr(0, 4), "req-");
}

// The text format as Prometheus' documentation has it: HELP, TYPE, then samples of that name; every name once.
TEST(Service, MetricsAreWellFormed) {
  shared().post("/v1/completions", R"({"prompt":"a","max_tokens":2})");
  const test::Answer answer = shared().ask("GET", "/metrics");
  EXPECT_EQ(answer.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  const std::regex help("# HELP ([a-z_]+) .+"), type("# TYPE ([a-z_]+) (counter|gauge|histogram)"),
      sample(R"re(([a-z_]+)(\{[a-z]+="[^"\n]*"(,[a-z]+="[^"\n]*")*\})? [-+0-9.e]+)re");
  std::set<std::string> names;
  std::string name;
  std::istringstream lines(answer.body);
  double last_bucket = 0;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      name = match[1];
      EXPECT_TRUE(names.insert(name).second) << name << " stands twice";
      last_bucket = 0;
    } else if (std::regex_match(line, match, type)) {
      EXPECT_EQ(match[1], name);
      EXPECT_EQ(name.ends_with("_total"), match[2] == "counter") << name;
    } else {
      ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
      EXPECT_EQ(match[1].str().find(name), 0u) << line;
      if (match[1].str() != name + "_bucket") continue;
      const double bucket = std::stod(line.substr(line.rfind(' ')));
      EXPECT_GE(bucket, last_bucket) << "buckets are cumulative: " << line;
      last_bucket = bucket;
    }
  }
  EXPECT_TRUE(names.count("evros_time_to_first_token_seconds") && names.count("evros_reused_tokens_total"));
}

TEST(Service, StatusTellsWhatIsHeld) {
  Running running;
  running.post("/v1/completions", R"({"prompt":"Once upon","max_tokens":2})");
  const json::value status = json::parse(running.ask("GET", "/status").body);
  EXPECT_EQ(status.at("model").as_string(), "tiny");
  EXPECT_EQ(status.at("context").as_int64(), 512);
  EXPECT_EQ(status.at("totals").at("done").as_int64(), 1);
  EXPECT_EQ(status.at("totals").at("drawn_tokens").as_int64(), 2);
  EXPECT_EQ(status.at("slots").at("total").as_int64(), 6);
  EXPECT_GE(status.at("slots").at("kept").as_int64(), 1);
  EXPECT_EQ(status.at("sequences").at(0).at("state").as_string(), "kept");
}

/// Collects the log of a server.
struct Lines {
  std::mutex mutex;
  std::vector<std::string> all;
  Log log() {
    return [this](std::string_view line) {
      const std::lock_guard lock(mutex);
      all.emplace_back(line);
    };
  }
  std::vector<std::string> copy() {
    const std::lock_guard lock(mutex);
    return all;
  }
  size_t count(std::string_view text) {
    size_t found = 0;
    for (const std::string& line : copy()) found += line.find(text) != std::string::npos;
    return found;
  }
};

// Escape sequences, C1 controls, directional marks and endless names would let a client write an operator's terminal.
TEST(Service, NothingAClientSendsCanForgeOrFloodTheLog) {
  Lines lines;
  {
    ServiceOptions options;
    options.log = lines.log();
    Running server(options);
    const std::string long_name(20000, 'm');
    server.ask("POST", "/v1/completions",
               R"({"prompt":"a","model":"x\nGET /health 200 forged\u001b[2J\u009b2J\u202e\u2028\u007f"})");
    server.ask("POST", "/v1/completions", R"({"prompt":"a","logit_bias":{"\n\u009b":1}})");
    server.ask("POST", "/v1/chat/completions", R"({"messages":[{"role":"\n\u009b","content":"a"}]})");
    server.ask("GET", "/v1/models/%c2%9b2J%e2%80%ae%ff");
    server.ask("GET", "/" + long_name);
    server.ask("GET", "/v1/models/" + long_name);
    server.ask(long_name, "/health");
    server.ask("GET", "/nope", "", "x-request-id: a\xc2\x9b\r\n");
    server.ask("GET", "/health", "", "Origin: http://\xc2\x9b\r\n");
  }
  const auto all = lines.copy();
  EXPECT_EQ(all.size(), 9u);
  for (const std::string& line : all) {
    EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; })) << line;
    EXPECT_LT(line.size(), 1000u) << line;
  }
}

// Many long texts of clients that were killed would keep everybody else waiting, and the program from ending.
TEST(Service, TextsOfClientsThatLeftAreNotRead) {
  Lines lines;
  ServiceOptions options;
  options.log = lines.log();
  Running server(options);
  Client first(server.service->port());
  first.send(request("POST", "/tokenize", R"({"prompt":")" + std::string(2 << 20, ' ') + R"("})"));
  constexpr size_t kLeaving = 5;
  for (size_t i = 0; i < kLeaving; ++i)
    Client(server.service->port()).send(request("POST", "/tokenize", R"({"prompt":"b"})"));
  EXPECT_EQ(first.read_answer().status, 200);
  EXPECT_EQ(server.ask("POST", "/tokenize", R"({"prompt":"a"})").status, 200);
  EXPECT_GE(lines.count(" 499 "), 1u) << "those who had left when their turn came";
}

}  // namespace
}  // namespace evros::server
