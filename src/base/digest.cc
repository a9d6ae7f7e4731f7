#include "base/digest.h"

#include <xxhash.h>

#include <algorithm>

#include "base/check.h"

namespace evros {

static_assert(sizeof(Digest) == 16, "leaves are hashed as an array of digests");

Digest digest(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

Digest tree_root(std::span<const Digest> leaves) { return digest(std::as_bytes(leaves)); }

std::string hex(const Digest& digest) {
  std::string out;
  for (const uint64_t half : {digest.high, digest.low}) {
    for (int shift = 60; shift >= 0; shift -= 4) out.push_back("0123456789abcdef"[(half >> shift) & 15]);
  }
  return out;
}

void TreeDigest::update(std::span<const std::byte> bytes) {
  CHECK(tail_.size() < kDigestLeaf);
  while (!bytes.empty()) {
    if (tail_.empty() && bytes.size() >= kDigestLeaf) {  // a whole leaf: hash it where it lies
      leaves_.push_back(digest(bytes.first(kDigestLeaf)));
      bytes = bytes.subspan(kDigestLeaf);
      continue;
    }
    const size_t take = std::min<size_t>(bytes.size(), kDigestLeaf - tail_.size());
    tail_.insert(tail_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(take));
    bytes = bytes.subspan(take);
    if (tail_.size() < kDigestLeaf) continue;
    leaves_.push_back(digest(tail_));
    tail_.clear();
  }
}

Digest TreeDigest::root() const {
  if (tail_.empty()) return tree_root(leaves_);
  std::vector<Digest> all = leaves_;
  all.push_back(digest(tail_));
  return tree_root(all);
}

}  // namespace evros
