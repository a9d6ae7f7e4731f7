#include "base/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

namespace evros {
namespace {

std::span<const std::byte> bytes_of(std::string_view s) { return std::as_bytes(std::span(s.data(), s.size())); }

// Known answers, as xxHash's own tool prints them (xxhsum -H2).
TEST(Digest, is_xxh3_128_as_published) {
  EXPECT_EQ(hex(digest({})), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hex(digest(bytes_of("abc"))), "06b05ab6733a618578af5f94892f3950");
}

std::vector<std::byte> pattern(size_t n) {
  std::vector<std::byte> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>(i * 31 + i / 251);
  return out;
}

TEST(TreeDigest, is_the_digest_of_the_leaf_digests) {
  for (const size_t n :
       {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{3 * 4096}, size_t{20000}}) {
    const std::vector<std::byte> all = pattern(n);
    std::vector<std::byte> leaf_bytes;  // 16 bytes a leaf: low half, high half, little-endian
    for (size_t at = 0; at < n; at += 4096) {
      const Digest leaf = digest(std::span(all).subspan(at, std::min<size_t>(4096, n - at)));
      for (const uint64_t half : {leaf.low, leaf.high}) {
        for (int i = 0; i < 8; ++i) leaf_bytes.push_back(static_cast<std::byte>(half >> (8 * i)));
      }
    }
    TreeDigest tree;
    tree.update(all);
    EXPECT_EQ(tree.root(), digest(leaf_bytes)) << n;
    EXPECT_EQ(tree.full_leaves().size(), n / 4096);
  }
}

TEST(TreeDigest, does_not_depend_on_how_the_bytes_arrive) {
  const std::vector<std::byte> all = pattern(50000);
  TreeDigest whole;
  whole.update(all);
  for (const size_t step : {size_t{1}, size_t{7}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{9000}}) {
    TreeDigest parts;
    for (size_t at = 0; at < all.size(); at += step) {
      parts.update(std::span(all).subspan(at, std::min(step, all.size() - at)));
      (void)parts.root();  // asking in between changes nothing
    }
    EXPECT_EQ(parts.root(), whole.root()) << step;
  }
}

TEST(TreeDigest, notices_a_changed_byte_and_a_moved_end) {
  std::vector<std::byte> all = pattern(9000);
  TreeDigest a, b, c;
  a.update(all);
  b.update(std::span(all).first(8999));
  all[5000] ^= std::byte{1};
  c.update(all);
  EXPECT_NE(a.root(), b.root());
  EXPECT_NE(a.root(), c.root());
  EXPECT_EQ(a.full_leaves()[0], c.full_leaves()[0]);
  EXPECT_NE(a.full_leaves()[1], c.full_leaves()[1]);
}

}  // namespace
}  // namespace evros
