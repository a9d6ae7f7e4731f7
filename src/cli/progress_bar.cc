#include "cli/progress_bar.h"

#include <cstdio>

#include "base/str.h"
#include "cli/common.h"
#include "io/io.h"
#include "io/process.h"

namespace evros::cli {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kRedraw = kSecond / 10;
constexpr int kCells = 24;

std::string clock_text(uint64_t seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%llu:%02llu", static_cast<unsigned long long>(seconds / 60),
                static_cast<unsigned long long>(seconds % 60));
  return text;
}

}  // namespace

ProgressBar::ProgressBar(std::string label, bool quiet)
    : label_(std::move(label)),
      shown_(!quiet && io::is_terminal(io::Stream::err)),
      started_ns_(io::real_io().now_ns()) {}

ProgressBar::~ProgressBar() {
  if (drawn_ns_ > 0) std::fputs("\r\033[K", stderr);
}

Progress ProgressBar::progress() {
  if (!shown_) return {};
  return [this](uint64_t done, uint64_t total) { show(done, total); };
}

void ProgressBar::show(uint64_t done, uint64_t total) {
  const uint64_t now = io::real_io().now_ns();
  if (total == 0 || (drawn_ns_ > 0 && done < total && now - drawn_ns_ < kRedraw)) return;
  drawn_ns_ = now;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const int full = static_cast<int>(share * kCells);
  const double elapsed = static_cast<double>(now - started_ns_) / static_cast<double>(kSecond);
  const std::string left =
      done > 0 && elapsed > 1 ? cat(", ", clock_text(static_cast<uint64_t>(elapsed / share - elapsed)), " left") : "";
  std::fprintf(stderr, "\r\033[K%s [%s%s] %3d%%  %s of %s%s", label_.c_str(),
               std::string(static_cast<size_t>(full), '#').c_str(),
               std::string(static_cast<size_t>(kCells - full), '.').c_str(), static_cast<int>(share * 100),
               human_bytes(done).c_str(), human_bytes(total).c_str(), left.c_str());
  std::fflush(stderr);
}

}  // namespace evros::cli
