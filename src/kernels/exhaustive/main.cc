// `make test-exhaustive`: math.h over all 2^32 inputs of every function, on all cores. Minutes, so CI takes 1/64 of it.
#include <algorithm>
#include <cstdio>
#include <thread>
#include <vector>

#include "kernels/math_sweep.h"

int main() {
  using namespace evros::kernels;
  const uint64_t workers = std::max(1u, std::thread::hardware_concurrency()), all = uint64_t{1} << 32;
  bool good = true;
  for (const SweptFunction& f : kSweptFunctions) {
    std::vector<SweepResult> results(workers);
    std::vector<std::thread> threads;
    for (uint64_t w = 0; w < workers; ++w) {
      threads.emplace_back([&, w] { results[w] = sweep(f, all * w / workers, all * (w + 1) / workers, 1); });
    }
    for (std::thread& thread : threads) thread.join();
    SweepResult total;
    for (const SweepResult& r : results) {
      if (r.failures > 0 && total.failures == 0) total.first_failure = r.first_failure;
      total.failures += r.failures;
      if (r.worst_ulps > total.worst_ulps) total.worst_ulps = r.worst_ulps, total.worst_input = r.worst_input;
    }
    good = good && total.failures == 0;
    std::printf("%-9s worst %.4f ulp at %a (allowed %.2f), %llu failures", f.name, total.worst_ulps,
                static_cast<double>(total.worst_input), f.ulps, static_cast<unsigned long long>(total.failures));
    if (total.failures > 0) std::printf(", first at %a", static_cast<double>(total.first_failure));
    std::printf("\n");
  }
  return good ? 0 : 1;
}
