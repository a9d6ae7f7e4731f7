// Targets, heads, dates and errors, without sockets.
#include "server/http_message.h"

#include <gtest/gtest.h>

#include "server/http_out_queue.h"

namespace evros::server {
namespace {

TEST(HttpMessage, TargetsAreSplitAndTheirPathsDecoded) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"/", "/", ""},
      {"/v1/models?limit=2&x=%41", "/v1/models", "limit=2&x=%41"},
      {"/a%20b%C3%bc", "/a b\xc3\xbc", ""},
      {"/?", "/", ""},
      {"/a?b?c", "/a", "b?c"},
      {"http://host:80/a%2Db?c", "/a-b", "c"},
      {"HTTPS://host", "/", ""},
      {"http://host?q", "/", "q"},
      {"/..a/b../...", "/..a/b../...", ""},
      {"/%25%32%66", "/%2f", ""},  // decoded once, not twice
  };
  for (const auto& [target, path, query] : cases) {
    std::string seen_path, seen_query;
    const auto failure = split_target(target, seen_path, seen_query);
    EXPECT_FALSE(failure.has_value()) << target << ": " << failure->message;
    EXPECT_EQ(seen_path, path) << target;
    EXPECT_EQ(seen_query, query) << target;
  }
}

TEST(HttpMessage, TargetsThatHideSomethingAreRefused) {
  for (const char* target : {"",    "*",    "a",       "?a",        "host:80", "ftp://host/a", "http:///a", "/%",
                             "/%4", "/%zz", "/%+1",    "/a%2Fb",    "/a%2fb",  "/%00",         "/%0a",      "/%7f",
                             "/.",  "/..",  "/a/../b", "/%2e%2E/b", "/a/.",    "/a#b"}) {
    std::string path, query;
    const auto failure = split_target(target, path, query);
    ASSERT_TRUE(failure.has_value()) << target;
    EXPECT_EQ(failure->status, 400) << target;
  }
}

TEST(HttpMessage, DateIsThatOfTheStandard) {
  // RFC 9110, 5.6.7, and a leap day.
  const auto at = [](int64_t seconds) { return std::chrono::system_clock::time_point(std::chrono::seconds(seconds)); };
  EXPECT_EQ(http_date(at(784111777)), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(http_date(at(1709164800) + std::chrono::milliseconds(999)), "Thu, 29 Feb 2024 00:00:00 GMT");
}

TEST(HttpMessage, HeadSaysHowTheBodyEnds) {
  const std::chrono::system_clock::time_point now{};
  HttpResponse response;
  response.content_type = "text/event-stream";
  response.body = "four";
  response.headers.emplace_back("X-Id", "7");
  EXPECT_EQ(response_head(response, {}, now),
            "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: "
            "text/event-stream\r\nContent-Length: 4\r\n"
            "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\nX-Id: 7\r\n\r\n");
  response.headers = {{"cache-control", "max-age=1"}};
  EXPECT_EQ(
      response_head(response, {HttpFraming::Body::chunked, false, true}, now),
      "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/event-stream\r\n"
      "Transfer-Encoding: chunked\r\nX-Accel-Buffering: no\r\ncache-control: max-age=1\r\nConnection: close\r\n\r\n");
  HttpResponse nothing;
  nothing.status = 304;
  EXPECT_EQ(response_head(nothing, {HttpFraming::Body::length, true, false}, now),
            "HTTP/1.1 304 Not Modified\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nConnection: keep-alive\r\n\r\n");
}

TEST(HttpMessage, HeaderValueCannotAddAHeader) {
  HttpResponse response;
  response.headers.emplace_back("X-Name", "a\r\nSet-Cookie: b");
  const std::string head = response_head(response, {}, {});
  EXPECT_NE(head.find("X-Name: a  Set-Cookie: b\r\n"), std::string::npos) << head;
}

TEST(HttpMessage, ErrorsHaveOpenAisForm) {
  const HttpResponse refused = http_error({413, "body_too_large", "a \"big\" body"});
  EXPECT_EQ(refused.status, 413);
  EXPECT_EQ(refused.body,
            "{\"error\":{\"message\":\"a \\\"big\\\" body\",\"type\":\"invalid_request_error\",\"param\":null,"
            "\"code\":\"body_too_large\"}}");
  EXPECT_NE(http_error({500, "no_answer", "a"}).body.find("\"type\":\"server_error\""), std::string::npos);
}

TEST(HttpMessage, ChunkHeadIsHexadecimal) {
  EXPECT_EQ(chunk_head(1), "1\r\n");
  EXPECT_EQ(chunk_head(0xdeadbeef), "deadbeef\r\n");
}

TEST(HttpOutQueue, AnyPortionsTakeTheBytesInOrderAndCountThePayload) {
  for (size_t portion = 1; portion <= 12; ++portion) {
    HttpOutQueue queue;
    queue.push("head");
    queue.push("");
    queue.push("payload", HttpOutQueue::Kind::payload);
    queue.push("\r\n");
    std::string seen;
    size_t payload = 0;
    while (!queue.empty()) {
      std::string front;
      for (size_t i = 0; !queue.at(i).empty(); ++i) front += queue.at(i);
      const size_t taken = std::min(portion, front.size());
      seen += front.substr(0, taken);
      payload += queue.consume(taken);
    }
    EXPECT_EQ(seen, "headpayload\r\n");
    EXPECT_EQ(payload, 7u);
  }
}

}  // namespace
}  // namespace evros::server
