// SHA-256 (FIPS 180-4), for identities that others may compute too. OpenSSL does the work.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace evros {

using Sha256Digest = std::array<std::byte, 32>;

/// Over a stream of bytes; how it is cut into calls does not matter.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void update(std::span<const std::byte> bytes);
  /// Ends the stream; nothing may follow.
  Sha256Digest finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// 64 lower-case hexadecimal digits, first byte first: the way sha256sum prints it.
std::string hex(const Sha256Digest& digest);

}  // namespace evros
