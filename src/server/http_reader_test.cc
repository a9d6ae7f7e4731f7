// Bytes to requests, in whatever portions they come.
#include "server/http_reader.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "server/http_reader_testing.h"

namespace evros::server {
namespace {

using State = HttpReader::State;
using test::read_all;

constexpr std::string_view kRequests[] = {
    "GET /a?b HTTP/1.1\r\nHost: h\r\n\r\n",
    "POST /c HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nX-Long:  a value \r\n\r\n12345",
    "POST /d HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST /e HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
    "Chunked\r\n\r\n3\r\nabc\r\n00A;x=\"y\"\r\n0123456789\r\n000\r\nX-T: r\r\n\r\n",
    "POST /f HTTP/1.0\r\nContent-Length: 0\r\n\r\n",
};

TEST(HttpReader, PortionsOfTheStreamDoNotChangeTheRequests) {
  std::string stream;
  for (const std::string_view request : kRequests) stream += std::string(request) + "\r\n";  // an empty line between
  const auto whole = read_all(stream, [&text = stream] { return text.size(); });
  ASSERT_EQ(whole.size(), std::size(kRequests));
  EXPECT_EQ(whole[1], "POST /c \nhost=h\ncontent-length=5\nx-long=a value\n\n12345");
  EXPECT_EQ(whole[3], "POST /e \nhost=h\ntransfer-encoding=Chunked\n\nabc0123456789");
  EXPECT_EQ(read_all(stream, [] { return 1; }), whole);
  EXPECT_EQ(read_all(stream, [] { return 2; }), whole);
  EXPECT_EQ(read_all(stream, [] { return 3; }), whole);
  for (uint32_t i = 0, draw = 0; i < 300; ++i)
    EXPECT_EQ(read_all(stream, [&] { return 1 + philox({++draw}, {i})[0] % 40; }), whole);
}

TEST(HttpReader, RefusalsDoNotDependOnThePortions) {
  const std::string chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::pair<std::string, const char*> cases[] = {
      {chunked + "1f4\r\n" + std::string(500, 'x') + "\r\n1f5\r\n", "413"},
      {chunked + "0\r\nX: " + std::string(1100, 'x') + "\r\n\r\n", "431"},
      {chunked + "3\r\nabcd\r\n0\r\n\r\n", "400"},
      {chunked + "-1\r\n12345", "400"},
      {chunked + "ffffffffffffffffff\r\n12345", "400"},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n", "413"},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551616\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n", "501"},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "400"},
      {"GET / HTTP/3.0\r\n\r\n", "505"},
      {"GET / HTTP/x\r\n\r\n 1234567", "400"},
      {"GET / HTTP/1.1\nHost: h\n\n\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\nHost : h\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\nHost: h\r\nX: a" + std::string(1, '\0') + "b\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\nHost: h\r\n" + std::string(995, 'x') + ": 1\r\n\r\n", "431"},
  };
  for (const auto& [stream, status] : cases) {
    EXPECT_EQ(read_all(stream, [&text = stream] { return text.size(); }), std::vector<std::string>{status})
        << stream.substr(0, 90);
    EXPECT_EQ(read_all(stream, [] { return 1; }), std::vector<std::string>{status}) << stream.substr(0, 90);
  }
}

TEST(HttpReader, LimitsAreExact) {
  const auto body = [](size_t size) {
    return "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n" +
           std::string(size, 'x');
  };
  HttpReader at_limit(1000, 1000);
  EXPECT_EQ(at_limit.feed(body(1000)), body(1000).size());
  EXPECT_EQ(at_limit.state(), State::done);
  HttpReader above(1000, 1000);
  above.feed(body(1001));
  EXPECT_EQ(above.failure().status, 413);
}

TEST(HttpReader, TrailersDoNotBecomeHeaders) {
  HttpReader reader(1000, 1000);
  reader.feed("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: stolen\r\n\r\n");
  ASSERT_EQ(reader.state(), State::done);
  EXPECT_EQ(reader.take().header("authorization"), "");
}

TEST(HttpReader, KeepAliveIsTheDefaultOfTheNewVersionOnly) {
  const auto keeps = [](std::string_view head) {
    HttpReader reader(1000, 1000);
    reader.feed(head);
    EXPECT_EQ(reader.state(), State::done) << head;
    return reader.keep_alive();
  };
  EXPECT_TRUE(keeps("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(keeps("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
}

TEST(HttpReader, ContinueIsWantedUntilTheBodyComes) {
  HttpReader reader(1000, 1000);
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n";
  EXPECT_EQ(reader.feed(head), head.size());
  EXPECT_EQ(reader.state(), State::body);
  EXPECT_TRUE(reader.wants_continue());
  reader.feed("x");
  EXPECT_FALSE(reader.wants_continue());
}

}  // namespace
}  // namespace evros::server
