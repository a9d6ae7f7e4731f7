// Digests of bytes (docs/state.md "Digests"): XXH3-128, and a tree of it over leaves of 4 KiB. Fast and good against accidents;
// not against an adversary, who is not who they are for.
//
// The tree: leaf i is XXH3-128 of bytes [4096 i, 4096 (i + 1)), the last leaf shorter; the root is XXH3-128 of all leaves' 16
// bytes each, low half first, little-endian. No bytes: no leaves, and the root of an empty string. So leaves can be kept, or
// computed anywhere and in any order, and only changed ones need hashing again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace evros {

struct Digest {
  uint64_t low = 0, high = 0;
  bool operator==(const Digest&) const = default;
};

constexpr uint64_t kDigestLeaf = 4096;

/// XXH3-128 with seed 0.
Digest digest(std::span<const std::byte> bytes);

/// The root over leaves computed elsewhere.
Digest tree_root(std::span<const Digest> leaves);

/// 32 lower-case hexadecimal digits, high half first: the way xxhsum prints it.
std::string hex(const Digest& digest);

/// The tree over a stream of bytes; how it is cut into calls does not matter.
class TreeDigest {
 public:
  void update(std::span<const std::byte> bytes);
  /// The root over everything so far; more may follow.
  Digest root() const;
  /// Digests of the leaves that are full.
  std::span<const Digest> full_leaves() const { return leaves_; }

 private:
  std::vector<Digest> leaves_;
  std::vector<std::byte> tail_;  // fewer than kDigestLeaf bytes
};

}  // namespace evros
