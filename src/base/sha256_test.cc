#include "base/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace evros {
namespace {

std::string sha256(const std::string& text, size_t cut) {
  Sha256 hash;
  const auto bytes = std::as_bytes(std::span(text));
  hash.update(bytes.first(cut));
  hash.update(bytes.subspan(cut));
  return hex(hash.finish());
}

// The examples of FIPS 180-4 (NIST, "SHA256.pdf") and the empty message.
TEST(Sha256, GivesThePublishedDigestsHoweverTheMessageIsCut) {
  const std::string two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  EXPECT_EQ(sha256("", 0), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc", 1), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  for (size_t cut = 0; cut <= two_blocks.size(); ++cut) {
    EXPECT_EQ(sha256(two_blocks, cut), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  }
}

}  // namespace
}  // namespace evros
