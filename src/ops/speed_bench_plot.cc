// The picture of a speed report: two panels over one logarithmic axis of context lengths.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "base/str.h"
#include "ops/speed_bench.h"

namespace evros::ops {
namespace {

constexpr double kWidth = 720, kPanel = 260, kLeft = 80, kRight = 30, kTop = 60;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 100 ? "%.1f" : "%.0f", value);
  return text;
}

/// The least of 1, 2, 5 times a power of ten that is not below `value`.
double round_up(double value) {
  const double power = std::pow(10, std::floor(std::log10(std::max(value, 1e-9))));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (value <= step * power) return step * power;
  }
  return 10 * power;
}

using Value = std::function<double(const SpeedPoint&)>;

class Panel {
 public:
  Panel(const std::vector<SpeedPoint>& points, double top, double most) : points_(points), top_(top), most_(most) {}

  std::string axes(const std::string& title) const {
    std::string out = text(kLeft, top_ - 12, "start", title);
    for (int i = 0; i <= 4; ++i) {
      const double value = most_ * i / 4;
      out += cat("<line class='grid' x1='", kLeft, "' x2='", kWidth - kRight, "' y1='", y(value), "' y2='", y(value),
                 "'/>\n");
      out += text(kLeft - 8, y(value) + 4, "end", number(value));
    }
    for (const SpeedPoint& point : points_) out += text(x(point), y(0) + 20, "middle", cat(point.context));
    return out;
  }

  std::string curve(const char* style, const std::string& label, bool dots, const Value& value) const {
    std::string line, marks;
    for (const SpeedPoint& point : points_) {
      line += cat(line.empty() ? "" : " ", x(point), ',', y(value(point)));
      if (!dots) continue;
      marks += cat("<circle class='", style, "' cx='", x(point), "' cy='", y(value(point)), "' r='4'/>\n");
      marks += text(x(point), y(value(point)) - 10, "middle", number(value(point)));
    }
    const std::string name =
        dots || points_.empty() ? "" : text(x(points_.back()), y(value(points_.back())) - 8, "end", label);
    return cat("<polyline class='", style, "' points='", line, "'/>\n", marks, name);
  }

 private:
  double x(const SpeedPoint& point) const {
    const auto log = [](const SpeedPoint& p) { return std::log2(static_cast<double>(p.context)); };
    const double first = log(points_.front()), range = log(points_.back()) - first;
    const double place = range > 0 ? (log(point) - first) / range : 0.5;
    return std::round(kLeft + 30 + place * (kWidth - kRight - kLeft - 60));
  }
  double y(double value) const { return std::round(top_ + kPanel - 60 - value / most_ * (kPanel - 60)); }
  static std::string text(double at_x, double at_y, const char* anchor, const std::string& words) {
    return cat("<text x='", at_x, "' y='", at_y, "' text-anchor='", anchor, "'>", escaped(words), "</text>\n");
  }

  const std::vector<SpeedPoint>& points_;
  double top_, most_;
};

}  // namespace

std::string speed_plot(const SpeedReport& report, const std::string& title) {
  const double height = kTop + 2 * kPanel + 20;
  std::string out = cat("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 ", kWidth, ' ', height, "'>\n");
  out +=
      "<style>text{font:13px sans-serif;fill:#222}.grid{stroke:#ddd}polyline{fill:none;stroke-width:2}"
      "polyline.run{stroke:#1a6fb0}circle.run{fill:#1a6fb0}polyline.limit{stroke:#888;stroke-dasharray:6 4}</style>\n";
  out += cat("<rect width='", kWidth, "' height='", height, "' fill='#fff'/>\n<text x='", kLeft, "' y='24'>",
             escaped(title), "</text>\n");
  const Value decode = [](const SpeedPoint& p) { return median(p.decode); };
  const Value prefill = [](const SpeedPoint& p) { return median(p.prefill); };
  const Value limit = [&](const SpeedPoint& p) {
    return median(report.reading) / static_cast<double>(p.bytes.weights + p.bytes.state);
  };
  const auto most = [&](const Value& value) {
    double all = 0;
    for (const SpeedPoint& point : report.points) all = std::max(all, value(point));
    return all > 0 ? round_up(1.1 * all) : 1;
  };
  if (!report.points.empty()) {
    const Panel upper(report.points, kTop, std::max(most(decode), most(limit)));
    out += upper.axes("decoding, tokens a second, by tokens of context");
    out += upper.curve("limit", "what reading memory allows", false, limit) + upper.curve("run", "", true, decode);
    const Panel lower(report.points, kTop + kPanel, most(prefill));
    out += lower.axes("prefill, tokens a second") + lower.curve("run", "", true, prefill);
  }
  return out + "</svg>\n";
}

}  // namespace evros::ops
