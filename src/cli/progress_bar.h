// A bar on standard error for long work. Nothing is printed when standard error is no terminal or the user wants quiet.
#pragma once

#include <cstdint>
#include <string>

#include "base/progress.h"

namespace evros::cli {

/// Owns one line of the terminal from its first report to its destruction, which clears the line: what is printed
/// afterwards starts on an empty one. One thread.
class ProgressBar {
 public:
  /// `label` stands before the bar: "converting". The unit of the work is bytes.
  ProgressBar(std::string label, bool quiet);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// For the worker; empty when nothing is to be shown. The bar must outlive its use.
  Progress progress();

 private:
  void show(uint64_t done, uint64_t total);

  std::string label_;
  bool shown_;
  uint64_t started_ns_, drawn_ns_ = 0;
};

}  // namespace evros::cli
