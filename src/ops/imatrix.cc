#include "ops/imatrix.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/for_ranges.h"

namespace evros::ops {

using kernels::Batch;
using kernels::Kernels;

namespace {

ImatrixDevice* g_device = nullptr;

Status run_window(engine::Engine& engine, engine::SessionId session, std::span<const int32_t> tokens) {
  const auto most = static_cast<size_t>(engine.info().plan.pass.rows);
  for (size_t at = 0; at < tokens.size(); at += most) {
    const engine::ChunkRow row{session, tokens.subspan(at, std::min(most, tokens.size() - at))};
    EVROS_ASSIGN(const auto statuses,
                 engine.run_chunk({&row, 1}, {.all_logits = true, .cancel = nullptr, .observer = nullptr}));
    EVROS_TRY(statuses[0]);
  }
  return {};
}

}  // namespace

ImatrixDevice::ImatrixDevice(std::unique_ptr<device::Device> inner, const Kernels& table)
    : ForwardingDevice(std::move(inner)), inner_table_(table), table_(table) {
  CHECK(g_device == nullptr && host_addressable());
  g_device = this;
  table_.matmul = matmul;
  table_.experts = experts;
}

ImatrixDevice::~ImatrixDevice() { g_device = nullptr; }

std::map<std::string, format::ImportanceEntry> ImatrixDevice::entries() const {
  std::map<std::string, format::ImportanceEntry> all;
  for (const auto& [name, sums] : sums_) {
    format::ImportanceEntry& entry = all[name];
    entry.columns = static_cast<uint64_t>(sums.columns);
    for (const double x : sums.squares) entry.sums.push_back(static_cast<float>(x));
    for (const uint64_t n : sums.counts) entry.counts.push_back(static_cast<float>(n));
  }
  return all;
}

void ImatrixDevice::matmul(device::Queue& queue, const Batch& batch, const kernels::MatmulArgs& args) {
  g_device->inner_table_.matmul(queue, batch, args);
  g_device->add(queue, args.w, {args.x, args.x_stride, batch.rows, 1, nullptr, 1});
}

// The down products' inputs are the activations that the kernel leaves in the first half of `hidden`.
void ImatrixDevice::experts(device::Queue& queue, const Batch& batch, const kernels::ExpertsArgs& args) {
  g_device->inner_table_.experts(queue, batch, args);
  const int64_t pairs = int64_t{batch.rows} * args.used;
  g_device->add(queue, args.gate, {args.x, args.x_stride, pairs, args.used, args.ids, args.experts});
  g_device->add(queue, args.up, {args.x, args.x_stride, pairs, args.used, args.ids, args.experts});
  g_device->add(queue, args.down, {args.hidden, args.down.cols, pairs, 1, args.ids, args.experts});
}

ImatrixDevice::Sums& ImatrixDevice::sums_of(const kernels::Matrix& w, int64_t experts) {
  const auto name = names_->find(w.data);
  CHECK(name != names_->end());
  Sums& sums = sums_[name->second];
  sums.columns = w.cols;
  sums.squares.resize(static_cast<size_t>(experts * w.cols));
  sums.counts.resize(static_cast<size_t>(experts));
  return sums;
}

void ImatrixDevice::add(device::Queue& queue, const kernels::Matrix& w, const Input& input) {
  if (names_ == nullptr) return;
  Sums& sums = sums_of(w, input.experts);
  const auto expert = [&](int64_t p) { return input.expert == nullptr ? 0 : int64_t{input.expert[p]}; };
  for (int64_t p = 0; p < input.products; ++p) ++sums.counts[static_cast<size_t>(expert(p))];
  kernels::for_each_range(queue, w.cols, 2 * input.products, [&](int64_t begin, int64_t end) {
    for (int64_t p = 0; p < input.products; ++p) {
      const float* x = input.data + p / input.share * input.stride;
      double* to = &sums.squares[static_cast<size_t>(expert(p) * w.cols)];
      for (int64_t i = begin; i < end; ++i) to[i] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    }
  });
}

Result<format::ImportanceMatrix> measure_importance(engine::Engine& engine, ImatrixDevice& device,
                                                    std::span<const int32_t> tokens, int64_t window,
                                                    const std::string& dataset, const Progress& progress) {
  CHECK(window > 0);
  if (tokens.empty()) return Error{Code::invalid_argument, "the text has no token; an importance matrix needs some"};
  format::ImportanceMatrix matrix{{dataset}, 0, static_cast<uint32_t>(window), {}};
  EVROS_ASSIGN(const engine::SessionId session, engine.open());
  device.measure(&engine.weight_names());
  Status status;
  const auto step = static_cast<size_t>(window);
  for (size_t at = 0; at < tokens.size() && status.ok(); at += step) {
    status = engine.reset(session);
    if (status.ok()) status = run_window(engine, session, tokens.subspan(at, std::min(step, tokens.size() - at)));
    ++matrix.chunk_count;
    report(progress, std::min(at + step, tokens.size()) * sizeof(int32_t), tokens.size_bytes());
  }
  device.measure(nullptr);
  EVROS_TRY(engine.close(session));
  EVROS_TRY(status);
  matrix.entries = device.entries();
  return matrix;
}

}  // namespace evros::ops
