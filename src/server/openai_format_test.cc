// Answers against literal JSON, written from OpenAI's public API reference; what is ours beside it is `reasoning_content` and
// usage.evros. The engine's side is played by hand.
#include "server/openai_format.h"

#include <gtest/gtest.h>

#include <sstream>

#include "server/server_testing.h"

namespace evros::server {
namespace {

using engine::Finish;
using engine::Piece;
using Kind = OpenAiAnswer::Kind;
using testing::tiny_text;

OpenAiAnswer answer(Kind kind, bool stream) {
  OpenAiAnswer out;
  out.kind = kind;
  out.stream = stream;
  out.id = "id-1";
  out.model = "tiny";
  out.fingerprint = "fp";
  out.created = 1700000000;
  out.seed = 7;
  return out;
}

std::unique_ptr<AnswerFormat> format(const OpenAiAnswer& a) { return openai_format(a, tiny_text().tokenizer); }

Totals totals() {
  Totals t;
  t.prompt_tokens = 10;
  t.reused_tokens = 4;
  t.reply_tokens = 3;
  t.thinking_tokens = 2;
  t.first_token_ns = 1'500'000;
  t.reply_ns = 2'000'000'000;
  return t;
}

constexpr const char* kUsage =
    R"("usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13,"prompt_tokens_details":{"cached_tokens":4},)"
    R"("completion_tokens_details":{"reasoning_tokens":2},"evros":{"reused_tokens":4,"new_tokens":6,"diverged_at":null,)"
    R"("ttft_ms":1.5,"tokens_per_second":1.5,"seed":7}})";

std::string chat_head(const char* object) {
  return std::string(R"({"id":"id-1","object":")") + object +
         R"(","created":1700000000,"model":"tiny","system_fingerprint":"fp",)";
}

/// The events of a stream, "data: " and the empty line taken off; fails when the stream is anything but such events.
std::vector<std::string> events(const std::string& bytes) {
  std::vector<std::string> out;
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = bytes.find("\n\n", at);
    EXPECT_NE(end, std::string::npos);
    if (end == std::string::npos) break;
    const std::string one = bytes.substr(at, end - at);
    EXPECT_EQ(one.substr(0, 6), "data: ");
    EXPECT_EQ(one.find('\n'), std::string::npos) << "one line each";
    out.push_back(one.substr(6));
    at = end + 2;
  }
  return out;
}

int32_t id_of(std::string_view token) { return tiny_text().tokenizer.find(token).value(); }

Piece piece(const std::string& text, bool thinking = false) {
  return {.thinking = thinking, .text = text, .tokens = {}};
}

TEST(OpenAiFormat, WholeChat) {
  auto out = format(answer(Kind::chat, false));
  EXPECT_FALSE(out->streamed());
  std::string streamed = out->started();
  streamed += out->piece(0, piece("Hel"));
  streamed += out->piece(0, piece("lo"));
  streamed += out->ended(0, Finish::stop_token);
  EXPECT_EQ(streamed, "") << "nothing before the end";
  EXPECT_EQ(out->done(totals()),
            chat_head("chat.completion") +
                R"("choices":[{"index":0,"message":{"role":"assistant","content":"Hello","refusal":null},)"
                R"("logprobs":null,"finish_reason":"stop"}],)" +
                kUsage + "}");
}

TEST(OpenAiFormat, WholeChatWithThinkingAndTwoChoices) {
  OpenAiAnswer a = answer(Kind::chat, false);
  a.choices = 2;
  a.thinks = true;
  auto out = format(a);
  out->started();
  out->piece(1, piece("so\n", true));
  out->piece(0, piece("Hm.\n", true));
  out->piece(0, piece("\n\nYes"));
  out->ended(1, Finish::length);
  out->ended(0, Finish::stop_string);
  EXPECT_EQ(
      out->done(totals()),
      chat_head("chat.completion") +
          R"("choices":[{"index":0,"message":{"role":"assistant","content":"Yes","reasoning_content":"Hm.","refusal":null},)"
          R"("logprobs":null,"finish_reason":"stop"},)"
          R"({"index":1,"message":{"role":"assistant","content":"","reasoning_content":"so","refusal":null},)"
          R"("logprobs":null,"finish_reason":"length"}],)" +
          kUsage + "}");
}

TEST(OpenAiFormat, StreamedChatInOrder) {
  OpenAiAnswer a = answer(Kind::chat, true);
  a.choices = 2;
  a.thinks = true;
  a.include_usage = true;
  auto out = format(a);
  std::string bytes = out->started();
  bytes += out->piece(0, piece("Hm.\n", true));
  bytes += out->piece(1, piece("\n\n"));
  bytes += out->piece(1, piece("A"));
  bytes += out->ended(1, Finish::stop_token);
  bytes += out->piece(0, piece("\n\nB"));
  bytes += out->ended(0, Finish::context_full);
  bytes += out->done(totals());
  const std::string head = chat_head("chat.completion.chunk") + R"("choices":[)";
  const auto chunk = [&](int index, const std::string& delta, const std::string& finish = "null") {
    return head + R"({"index":)" + std::to_string(index) + R"(,"delta":)" + delta +
           R"(,"logprobs":null,"finish_reason":)" + finish + R"(}],"usage":null})";
  };
  const std::vector<std::string> expected = {
      chunk(0, R"({"role":"assistant","content":""})"),
      chunk(1, R"({"role":"assistant","content":""})"),
      chunk(0, R"({"reasoning_content":"Hm."})"),
      chunk(1, R"({"content":"A"})"),
      chunk(1, "{}", R"("stop")"),
      chunk(0, R"({"content":"B"})"),
      chunk(0, "{}", R"("length")"),
      head + "]," + kUsage + "}",
      "[DONE]",
  };
  EXPECT_EQ(events(bytes), expected);
}

TEST(OpenAiFormat, UsageIsStreamedOnlyWhenAsked) {
  auto out = format(answer(Kind::chat, true));
  EXPECT_EQ(out->started().find("usage"), std::string::npos);
  EXPECT_EQ(out->done(totals()), "data: [DONE]\n\n");
}

TEST(OpenAiFormat, ABrokenStreamEndsWithAnErrorAndNoDone) {
  auto out = format(answer(Kind::chat, true));
  EXPECT_EQ(
      out->broken({.status = 504, .message = "too late", .code = "timeout"}),
      "data: {\"error\":{\"message\":\"too late\",\"type\":\"server_error\",\"param\":null,\"code\":\"timeout\"}}\n\n");
}

TEST(OpenAiFormat, WholeAndStreamedText) {
  auto whole = format(answer(Kind::text, false));
  whole->started();
  whole->piece(0, piece("\n<think>\n"));
  whole->ended(0, Finish::length);
  EXPECT_EQ(whole->done(totals()),
            chat_head("text_completion") +
                R"("choices":[{"index":0,"text":"\n<think>\n","logprobs":null,"finish_reason":"length"}],)" + kUsage +
                "}");
  auto stream = format(answer(Kind::text, true));
  const std::string head = chat_head("text_completion") + R"("choices":[{"index":0,"text":)";
  EXPECT_EQ(stream->started(), "") << "text has no role to open with";
  EXPECT_EQ(events(stream->piece(0, piece("a"))), std::vector{head + R"("a","logprobs":null,"finish_reason":null}]})"});
  EXPECT_EQ(events(stream->ended(0, Finish::stop_token)),
            std::vector{head + R"("","logprobs":null,"finish_reason":"stop"}]})"});
}

// "é" is two bytes; the bundled tokenizer has a token for every byte.
TEST(OpenAiFormat, ChatLogprobs) {
  OpenAiAnswer a = answer(Kind::chat, true);
  a.logprobs = true;
  a.top_logprobs = 2;
  auto out = format(a);
  Piece p = piece("!");
  p.tokens.push_back({.drawn = {id_of("!"), -0.5f}, .top = {{id_of("!"), -0.5f}, {id_of("\xC3"), -1.25f}}});
  const auto got = events(out->piece(0, p));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0],
            chat_head("chat.completion.chunk") +
                R"("choices":[{"index":0,"delta":{"content":"!"},"logprobs":{"content":[{"token":"!","logprob":-0.5,)"
                R"("bytes":[33],"top_logprobs":[{"token":"!","logprob":-0.5,"bytes":[33]},)" +
                "{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-1.25,\"bytes\":[195]}" +
                R"(]}],"refusal":null},"finish_reason":null}]})");
  Piece silent;  // half a character: no text yet, but its token counts
  silent.tokens.push_back({.drawn = {id_of("\xC3"), -2.0f}, .top = {}});
  EXPECT_EQ(events(out->piece(0, silent)).size(), 1u);
}

TEST(OpenAiFormat, ThinkingHasItsOwnLogprobs) {
  OpenAiAnswer a = answer(Kind::chat, false);
  a.logprobs = true;
  a.thinks = true;
  auto out = format(a);
  Piece thought = piece("!", true), said = piece("!");
  thought.tokens.push_back({.drawn = {id_of("!"), -1.0f}, .top = {}});
  said.tokens.push_back({.drawn = {id_of("!"), -2.0f}, .top = {}});
  out->piece(0, thought);
  out->piece(0, said);
  const std::string body = out->done(totals());
  EXPECT_NE(
      body.find(R"("logprobs":{"content":[{"token":"!","logprob":-2,"bytes":[33],"top_logprobs":[]}],"refusal":null,)"
                R"("reasoning_content":[{"token":"!","logprob":-1,"bytes":[33],"top_logprobs":[]}]})"),
      std::string::npos)
      << body;
}

TEST(OpenAiFormat, TextLogprobs) {
  OpenAiAnswer a = answer(Kind::text, false);
  a.logprobs = true;
  a.top_logprobs = 1;
  auto out = format(a);
  Piece p = piece("!\xC3\xA9!");
  p.tokens.push_back({.drawn = {id_of("!"), -0.5f}, .top = {{id_of("!"), -0.5f}}});
  p.tokens.push_back({.drawn = {id_of("\xC3"), -1.5f}, .top = {{id_of("!"), -0.25f}}});
  p.tokens.push_back({.drawn = {id_of("\xA9"), -0.125f}, .top = {{id_of("\xA9"), -0.125f}}});
  p.tokens.push_back({.drawn = {id_of("!"), -0.75f}, .top = {{id_of("!"), -0.75f}}});
  out->piece(0, p);
  const std::string body = out->done(totals());
  EXPECT_NE(
      body.find(
          R"("logprobs":{"tokens":["!","bytes:\\xc3","bytes:\\xa9","!"],"token_logprobs":[-0.5,-1.5,-0.125,-0.75],)"
          R"("top_logprobs":[{"!":-0.5},{"!":-0.25,"bytes:\\xc3":-1.5},{"bytes:\\xa9":-0.125},{"!":-0.75}],)"
          R"("text_offset":[0,1,1,2]})"),
      std::string::npos)
      << body;
}

TEST(OpenAiFormat, WhatWaitsInsideIsCounted) {
  OpenAiAnswer a = answer(Kind::chat, false);
  a.logprobs = true;
  auto out = format(a);
  EXPECT_EQ(out->held_bytes(), 0u);
  Piece p = piece("!!!!");
  p.tokens.push_back({.drawn = {id_of("!"), -1.0f}, .top = {}});
  out->piece(0, p);
  EXPECT_GT(out->held_bytes(), 40u);
}

TEST(OpenAiFormat, WhereAPrefixDivergedIsSaid) {
  auto out = format(answer(Kind::chat, false));
  Totals t = totals();
  t.diverged_at = 6;
  EXPECT_NE(out->done(t).find(R"("diverged_at":6)"), std::string::npos);
}

}  // namespace
}  // namespace evros::server
