// Bytes on their way to a socket: whole strings in order, written from the front in whatever portions the socket takes.
#pragma once

#include <algorithm>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace evros::server {

class HttpOutQueue {
 public:
  enum class Kind {
    frame,    // heads, chunk sizes, whole answers
    payload,  // bytes of a stream, which its sender counts
  };

  bool empty() const { return strings_.empty(); }

  void push(std::string bytes, Kind kind = Kind::frame) {
    if (!bytes.empty()) strings_.push_back({std::move(bytes), kind});
  }

  /// The unwritten part of string `i`; empty behind the last one. Valid until the next consume() or clear().
  std::string_view at(size_t i) const {
    if (i >= strings_.size()) return {};
    return std::string_view(strings_[i].bytes).substr(i == 0 ? written_ : 0);
  }

  /// The socket took this many bytes from the front. Returns how many of them were payload.
  size_t consume(size_t bytes) {
    size_t payload = 0;
    while (bytes > 0) {
      CHECK(!strings_.empty());
      const size_t part = std::min(bytes, at(0).size());
      if (strings_.front().kind == Kind::payload) payload += part;
      bytes -= part;
      written_ += part;
      if (!at(0).empty()) break;
      strings_.pop_front();
      written_ = 0;
    }
    return payload;
  }

 private:
  struct Entry {
    std::string bytes;
    Kind kind;
  };
  std::deque<Entry> strings_;
  size_t written_ = 0;  // of the first string
};

}  // namespace evros::server
