// A stream of requests read in portions of any sizes: for the tests and the fuzz program of the reader.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_reader.h"

namespace evros::server::test {

inline std::string summary(const HttpRequest& request) {
  std::string out = request.method + " " + request.path + " " + request.query;
  for (const auto& [name, value] : request.headers) out += "\n" + name + "=" + value;
  return out + "\n\n" + request.body;
}

/// Feeds `stream` in portions of the sizes that `portion` gives; the requests in it, or why one failed.
inline std::vector<std::string> read_all(std::string_view stream, const std::function<size_t()>& portion) {
  std::vector<std::string> seen;
  std::string input;
  HttpReader reader(1000, 1000);
  while (!stream.empty()) {
    const size_t size = std::min(portion(), stream.size());
    input += stream.substr(0, size);
    stream.remove_prefix(size);
    for (;;) {
      input.erase(0, reader.feed(input));
      if (reader.state() == HttpReader::State::failed) {
        seen.push_back(std::to_string(reader.failure().status));
        return seen;
      }
      if (reader.state() != HttpReader::State::done) break;
      seen.push_back(summary(reader.take()));
      reader = HttpReader(1000, 1000);
    }
  }
  return seen;
}

}  // namespace evros::server::test
