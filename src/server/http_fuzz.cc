// Any bytes as a stream of requests: refused or read, never a crash, and what is read does not depend on the portions in
// which the bytes came (a proxy and this server must agree where one request ends and the next begins).
#include <algorithm>

#include "base/check.h"
#include "base/rng.h"
#include "server/http_reader_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using evros::server::test::read_all;
  const std::string_view stream(reinterpret_cast<const char*>(data), size);
  const auto whole = read_all(stream, [&] { return stream.size(); });
  for (uint32_t largest : {1, 4, 50}) {
    uint32_t draw = 0;
    const auto parts = read_all(stream, [&] { return 1 + evros::philox({++draw}, {largest})[0] % largest; });
    // A refusal may come sooner or later; the requests before it are the same.
    const auto is_refusal = [](const std::string& entry) { return entry.size() == 3; };
    for (size_t i = 0; i < std::min(whole.size(), parts.size()); ++i) {
      if (is_refusal(whole[i]) || is_refusal(parts[i])) break;
      CHECK(whole[i] == parts[i]);
    }
  }
  return 0;
}
