// From the bytes of a connection to one whole request, or to the reason why it is refused. No sockets and no clock here.
#pragma once

#include <memory>
#include <string_view>

#include "server/http_message.h"

namespace evros::server {

/// Reads one request; the next one takes a new reader.
class HttpReader {
 public:
  HttpReader(uint32_t header_bytes, uint64_t body_bytes);
  ~HttpReader();
  HttpReader(HttpReader&&) noexcept;
  HttpReader& operator=(HttpReader&&) noexcept;

  enum class State {
    head,    // more bytes of the head are needed
    body,    // the head is whole and within the limits, more bytes of the body are needed
    done,    // take()
    failed,  // failure(); what follows in the stream has no meaning
  };
  State state() const;

  /// Reads from the bytes not yet used and says how many it used. The rest belongs in front of the next bytes (or, once
  /// done, to the next request); it never grows beyond header_bytes while more are wanted.
  size_t feed(std::string_view bytes);

  /// Any byte of the request has come (empty lines before it do not count).
  bool has_begun() const;

  /// From State::body on.
  bool wants_continue() const;  // "Expect: 100-continue", and no byte of the body has come yet
  bool keep_alive() const;      // what the client wants
  bool is_http11() const;       // or else 1.0
  const HttpFailure& failure() const;

  /// The request; peer and number are the caller's to fill in.
  HttpRequest take();

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace evros::server
