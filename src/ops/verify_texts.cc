#include "ops/verify_texts.h"

#include <algorithm>

#include "base/rng.h"

namespace evros::ops {

std::vector<int32_t> verify_text(const format::HyperParams& hyper, uint64_t seed, uint32_t which, int64_t n) {
  std::vector<int32_t> ids;
  const auto draw = [&](int64_t i, int32_t below) {
    return static_cast<int32_t>(uniform(seed, which, static_cast<uint64_t>(i)) * below);
  };
  const bool cuts = !hyper.ple.empty() && hyper.ple_eos >= 0 && hyper.ple_eos < hyper.vocab;
  for (int64_t i = 0; static_cast<int64_t>(ids.size()) < n; ++i) {
    const int32_t kind = draw(4 * i, 12);
    if (cuts && (kind == 0 || i == 5)) {
      ids.insert(ids.end(), static_cast<size_t>(1 + draw(4 * i + 1, 3)), static_cast<int32_t>(hyper.ple_eos));
    } else if (kind < 3 && ids.size() > 4) {
      const auto from = static_cast<size_t>(draw(4 * i + 2, static_cast<int32_t>(ids.size()) - 3));
      for (size_t k = 0; k < 3; ++k) ids.push_back(ids[from + k]);
    } else {
      ids.push_back(draw(4 * i + 3, hyper.vocab));
    }
  }
  ids.resize(static_cast<size_t>(n));
  return ids;
}

std::vector<int64_t> random_cuts(uint64_t seed, uint32_t which, int64_t n, int64_t most) {
  std::vector<int64_t> cuts;
  for (int64_t left = n; left > 0; left -= cuts.back()) {
    const double u = uniform(seed ^ 0x63757473, which, static_cast<uint64_t>(left));
    cuts.push_back(std::min(left, 1 + static_cast<int64_t>(u * static_cast<double>(most))));
  }
  return cuts;
}

std::vector<int64_t> repeated_cuts(const std::vector<int64_t>& pattern, int64_t n) {
  std::vector<int64_t> cuts;
  for (size_t i = 0; n > 0; ++i) {
    cuts.push_back(std::min(n, pattern[i % pattern.size()]));
    n -= cuts.back();
  }
  return cuts;
}

}  // namespace evros::ops
