#include "server/access.h"

#include <gtest/gtest.h>

namespace evros::server {
namespace {

HttpRequest request(std::vector<std::pair<std::string, std::string>> headers) {
  HttpRequest out;
  out.method = "GET";
  out.headers = std::move(headers);
  return out;
}

TEST(Access, OthersAreNotLetInByAccident) {
  EXPECT_TRUE(Access::check({.address = "127.0.0.1"}).ok());
  EXPECT_TRUE(Access::check({.address = "::1"}).ok());
  for (const char* address : {"0.0.0.0", "::", "192.168.1.2", "127.0.0.1.example.com"}) {
    EXPECT_FALSE(Access::check({.address = address}).ok()) << address;
    EXPECT_TRUE(Access::check({.address = address, .api_key = "k"}).ok());
    EXPECT_TRUE(Access::check({.address = address, .api_key = "", .insecure = true}).ok());
  }
}

// A server whose key nobody can send looks safe and serves nobody; an origin with a path allows nothing.
TEST(Access, KeysAndOriginsThatNoRequestCanMatchAreRefusedAtTheStart) {
  for (const char* key :
       {" ", "secret ", " secret", "se cret", "se\ncret", "\xef\xbb\xbfsecret", "s\xc3\xa9", "\x7f"}) {
    const Status checked = Access::check({.address = "127.0.0.1", .api_key = key});
    ASSERT_FALSE(checked.ok()) << key;
    EXPECT_EQ(checked.error().message.find("cret"), std::string::npos) << "the key stays secret";
  }
  EXPECT_TRUE(Access::check({.address = "127.0.0.1", .api_key = "sk-A1_.~+/=!"}).ok());
  const auto allow = [](const char* origin) {
    return Access::check({.address = "127.0.0.1", .api_key = "", .insecure = false, .cors_origins = {origin}}).ok();
  };
  for (const char* good :
       {"*", "null", "https://chat.example", "http://localhost:3000", "http://[::1]:3000", "app://x"})
    EXPECT_TRUE(allow(good)) << good;
  for (const char* bad : {"chat.example", "https://", "https://chat.example/", "https://chat.example:80/a", "*.example",
                          "https://a b", "https://chat.example:x", "://a", "https://me@chat.example"})
    EXPECT_FALSE(allow(bad)) << bad;
}

TEST(Access, TheKeyIsComparedWhole) {
  const Access access({.address = "127.0.0.1", .api_key = "secret"});
  EXPECT_FALSE(access.check_key(request({{"authorization", "Bearer secret"}})));
  EXPECT_FALSE(access.check_key(request({{"authorization", "bearer secret"}})));
  for (const char* wrong :
       {"", "Bearer ", "Bearer secre", "Bearer secret ", "Bearer secrets", "Bearer SECRET", "secret", "Basic secret"}) {
    const Refusal refusal = access.check_key(request({{"authorization", wrong}}));
    ASSERT_TRUE(refusal) << wrong;
    EXPECT_EQ(refusal->status, 401);
    EXPECT_EQ(refusal->code, "invalid_api_key");
  }
  EXPECT_TRUE(access.check_key(request({})));
  EXPECT_FALSE(Access({.address = "127.0.0.1"}).check_key(request({}))) << "no key is asked for";
}

// A page of evil.example whose name was made to lead to 127.0.0.1 sends its own name as Host.
TEST(Access, ForeignNamesThatLeadHereAreRefused) {
  const Access loopback({.address = "127.0.0.1"});
  for (const char* good :
       {"localhost", "localhost:8080", "LOCALHOST:1", "127.0.0.1:8080", "127.1.2.3", "[::1]:8080", "[::1]"})
    EXPECT_FALSE(loopback.check_source(request({{"host", good}}))) << good;
  for (const char* bad : {"", "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example",
                          "[::2]:80", "[::1", "10.0.0.1", "[::1]evil.example", "[::1].evil.example:80",
                          "localhost:80.evil.example", "localhost:x", "localhost@evil.example", "::1"}) {
    const Refusal refusal = loopback.check_source(request({{"host", bad}}));
    ASSERT_TRUE(refusal) << bad;
    EXPECT_EQ(refusal->status, 403);
  }
  EXPECT_FALSE(Access({.address = "0.0.0.0"}).check_source(request({{"host", "evros.example"}})))
      << "it may have any name";
}

TEST(Access, PagesOfOtherOriginsAreRefused) {
  const Access access({.address = "127.0.0.1"});
  const auto from = [&](const char* origin) {
    return access.check_source(request({{"host", "localhost:80"}, {"origin", origin}}));
  };
  EXPECT_FALSE(from("http://localhost:80"));
  EXPECT_FALSE(from("HTTP://LOCALHOST:80"));
  for (const char* bad : {"http://localhost:81", "http://evil.example", "null", "http://localhost:80.evil.example"})
    EXPECT_TRUE(from(bad)) << bad;
}

TEST(Access, AllowedOriginsMayReadTheAnswer) {
  const Access access(
      {.address = "127.0.0.1", .api_key = "", .insecure = false, .cors_origins = {"https://chat.example"}});
  HttpRequest page = request({{"host", "localhost"}, {"origin", "https://chat.example"}});
  EXPECT_FALSE(access.check_source(page));
  const auto has = [](const auto& headers, const std::string& name, const std::string& value) {
    return std::find(headers.begin(), headers.end(), std::pair(name, value)) != headers.end();
  };
  EXPECT_TRUE(has(access.cors_headers(page), "access-control-allow-origin", "https://chat.example"));
  EXPECT_FALSE(has(access.cors_headers(page), "access-control-allow-methods", "GET, POST"));
  page.method = "OPTIONS";
  EXPECT_TRUE(has(access.cors_headers(page), "access-control-allow-methods", "GET, POST"));
  const HttpRequest other = request({{"host", "localhost"}, {"origin", "https://evil.example"}});
  EXPECT_TRUE(access.check_source(other));
  EXPECT_EQ(access.cors_headers(other).size(), 1u) << "Vary alone";
  EXPECT_TRUE(Access({.address = "127.0.0.1"}).cors_headers(page).empty()) << "off by default";
}

}  // namespace
}  // namespace evros::server
