#include "engine/forward.h"

#include <algorithm>
#include <functional>

#include "base/str.h"
#include "model/ngram.h"
#include "model/stages.h"

namespace evros::engine {

Forward::Forward(const model::Model& model, pages::RowStore* table, device::Device& device,
                 const model::PassLimits& limits)
    : model_(model),
      table_(table),
      device_(device),
      limits_(limits),
      rope_(model.hyper.rope_dims, model.hyper.rope_theta),
      stages_(model::make_stages(model.hyper)) {}

Result<std::unique_ptr<Forward>> Forward::create(const model::Model& model, pages::RowStore* table,
                                                 device::Device& device, const model::PassLimits& limits) {
  std::unique_ptr<Forward> forward(new Forward(model, table, device, limits));
  const uint64_t bytes = model::carve_scratch(model.hyper, limits, model.ple_row_bytes, nullptr).bytes;
  EVROS_ASSIGN(forward->memory_, device.allocate(bytes, "the scratch of a forward pass"));
  forward->scratch_ = model::carve_scratch(model.hyper, limits, model.ple_row_bytes, forward->memory_.data());
  forward->reserve();
  return forward;
}

void Forward::reserve() {
  const auto& h = model_.hyper;
  const auto rows = static_cast<size_t>(limits_.rows), sequences = static_cast<size_t>(limits_.sequences);
  for (auto* list : {&ids_, &row_sequence_}) list->reserve(rows);
  last_row_sequence_.reserve(sequences);
  row_position_.reserve(rows);
  last_position_.reserve(sequences);
  position_.reserve(3 * sequences);
  for (auto* list : {&sequence_, &last_sequence_}) list->reserve(sequences);
  pages_.reserve(sequences * static_cast<size_t>(limits_.context / model_.state.layout.page_tokens + 1));
  rope_rows_.reserve(rows * static_cast<size_t>(rope_.dims()));
  status_words_.reserve(sequences);
  statuses_.reserve(sequences);
  first_seen_.reserve(sequences);
  if (table_ == nullptr) return;
  const size_t asked = rows * static_cast<size_t>(h.ple_heads());
  history_.reserve(sequences * static_cast<size_t>(h.ngram_size - 1));
  window_.resize(static_cast<size_t>(h.ngram_size));
  table_rows_.reserve(h.ple.size() * asked);
  encoded_.reserve(asked * static_cast<size_t>(model_.ple_row_bytes));
  lease_ = table_->make_lease(asked);
}

void Forward::lay_out(std::span<const ForwardRow> rows) {
  const int32_t page_tokens = model_.state.layout.page_tokens;
  for (auto* list : {&ids_, &row_sequence_, &last_row_sequence_}) list->clear();
  for (auto* list : {&row_position_, &last_position_, &history_, &position_}) list->clear();
  sequence_.clear();
  last_sequence_.clear();
  pages_.clear();
  for (const ForwardRow& row : rows) {
    const auto s = static_cast<int32_t>(sequence_.size());
    const auto first = static_cast<int32_t>(ids_.size());
    const auto n = static_cast<int32_t>(row.tokens.size());
    const state::Image& image = *row.image;
    // The store's list of pages is host memory; kernels read the copy that goes to the device with the other inputs.
    auto* const pages = const_cast<std::byte* const*>(scratch_.pages + pages_.size());
    pages_.insert(pages_.end(), image.pages, image.pages + state::pages_for(image.frontier + n, page_tokens));
    sequence_.push_back({first, n, image.frontier, image.bank_in, image.bank_out, pages});
    last_sequence_.push_back({s, 1, image.frontier + n - 1, image.bank_in, image.bank_out, pages});
    last_row_sequence_.push_back(s);
    last_position_.push_back(image.frontier + n - 1);
    for (int32_t i = 0; i < n; ++i) {
      ids_.push_back(row.tokens[static_cast<size_t>(i)]);
      row_sequence_.push_back(s);
      row_position_.push_back(image.frontier + i);
    }
    for (int axis = 0; axis < 3; ++axis) position_.push_back(image.frontier + n);
    for (int32_t back = static_cast<int32_t>(row.history.size()) - 1; back >= 0; --back) {
      history_.push_back(back < n ? row.tokens[static_cast<size_t>(n - 1 - back)]
                                  : row.history[static_cast<size_t>(back - n)]);
    }
  }
}

Status Forward::upload_rope() {
  const auto dims = static_cast<size_t>(rope_.dims());
  rope_rows_.resize(ids_.size() * dims);
  const auto fill = [&](int64_t back) {
    for (size_t r = 0; r < row_position_.size(); ++r) {
      rope_.row(std::max<int64_t>(row_position_[r] - back, 0), std::span(rope_rows_).subspan(r * dims, dims));
    }
  };
  fill(0);
  EVROS_TRY(upload(scratch_.rope, rope_rows_));
  const float* done = nullptr;  // layers of one ratio share their rows
  for (size_t layer = 0; layer < scratch_.block_rope.size(); ++layer) {
    if (scratch_.block_rope[layer] == nullptr || scratch_.block_rope[layer] == done) continue;
    done = scratch_.block_rope[layer];
    fill(model_.hyper.compress_ratio[layer] - 1);
    EVROS_TRY(upload(scratch_.block_rope[layer], rope_rows_));
  }
  return {};
}

void Forward::hash_ngrams(std::span<const ForwardRow> rows) {
  const auto heads = static_cast<size_t>(model_.hyper.ple_heads());
  table_rows_.resize(model_.hyper.ple.size() * ids_.size() * heads);
  size_t at = 0;
  for (const format::PleLayer& ple : model_.hyper.ple) {
    for (const ForwardRow& row : rows) {
      for (size_t i = 0; i < row.tokens.size(); ++i, at += heads) {
        for (size_t back = 0; back < window_.size(); ++back) {
          window_[back] = back <= i ? row.tokens[i - back] : row.history[back - i - 1];
        }
        model::ngram_rows(model_.hyper, ple, window_, std::span(table_rows_).subspan(at, heads));
      }
    }
  }
  table_->announce(table_rows_);
}

Status Forward::upload_table_rows(int32_t layer) {
  const auto row_bytes = static_cast<size_t>(model_.ple_row_bytes);
  const size_t count = ids_.size() * static_cast<size_t>(model_.hyper.ple_heads());
  for (size_t p = 0; p < model_.hyper.ple.size(); ++p) {
    if (model_.hyper.ple[p].layer != layer) continue;
    encoded_.resize(count * row_bytes);
    EVROS_TRY(table_->acquire(std::span(table_rows_).subspan(p * count, count), lease_));
    for (size_t i = 0; i < count; ++i) lease_.copy_row(i, &encoded_[i * row_bytes]);
    lease_.release();
    EVROS_TRY(upload(scratch_.ple_encoded[p], encoded_));
  }
  return {};
}

Status Forward::upload_inputs() {
  EVROS_TRY(upload(scratch_.ids, ids_));
  EVROS_TRY(upload(scratch_.row_sequence, row_sequence_));
  EVROS_TRY(upload(scratch_.row_position, row_position_));
  EVROS_TRY(upload(scratch_.sequence, sequence_));
  EVROS_TRY(upload(scratch_.last_sequence, last_sequence_));
  EVROS_TRY(upload(scratch_.pages, pages_));
  EVROS_TRY(upload(scratch_.last_row_sequence, last_row_sequence_));
  EVROS_TRY(upload(scratch_.last_position, last_position_));
  EVROS_TRY(upload(scratch_.position, position_));
  EVROS_TRY(upload(scratch_.history, history_));
  EVROS_TRY(device_.fill(reinterpret_cast<std::byte*>(scratch_.status), 0, sequence_.size() * sizeof(uint32_t)));
  return upload_rope();
}

namespace {

/// ", first in stage experts of layer 3"; nothing when the stage is not known.
std::string first_seen_text(const model::Stage* stage) {
  if (stage == nullptr) return {};
  return cat(", first in stage ", stage->name, stage->layer < 0 ? "" : cat(" of layer ", stage->layer));
}

}  // namespace

void Forward::note_first_seen(const model::Stage* next) {
  if (!device_.host_addressable()) return;
  for (size_t s = 0; s < first_seen_.size(); ++s) {
    if (first_seen_[s] == nullptr && (scratch_.status[s] & kernels::kNonFinite) != 0) first_seen_[s] = running_;
  }
  running_ = next;
}

Result<std::span<const Status>> Forward::read_status(size_t sequences) {
  auto& words = status_words_;
  auto& statuses = statuses_;
  words.resize(sequences);
  EVROS_TRY(
      device_.download(std::as_writable_bytes(std::span(words)), reinterpret_cast<const std::byte*>(scratch_.status)));
  statuses.assign(sequences, Status{});
  for (size_t s = 0; s < sequences; ++s) {
    if (words[s] & kernels::kIndexRange) {
      statuses[s] = Error{Code::device, "a kernel met an index outside its table"};
    } else if (words[s] & kernels::kCacheOverflow) {  // before what it leads to: attention then reads infinity
      statuses[s] = Error{Code::non_finite, cat("a key or value is too large for the cache type of ",
                                                model_.numerics.id(), "; --kv f32 or bf16 holds it")};
    } else if (words[s] & kernels::kNonFinite) {
      statuses[s] =
          Error{Code::non_finite, cat("a stage produced NaN or infinity in tokens ", sequence_[s].position, " to ",
                                      sequence_[s].position + sequence_[s].rows - 1, first_seen_text(first_seen_[s]))};
    } else if (words[s] != 0) {  // only a word of zero may be published
      statuses[s] = Error{Code::device, cat("the device set the unknown status word ", words[s])};
    }
  }
  return std::span<const Status>(statuses);
}

Status Forward::before_stage(const model::Pass& pass, const model::Stage* next, const ChunkOptions& options) {
  note_first_seen(next);
  if (options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed)) {
    return Error{Code::cancelled, cat("cancelled before stage ", next == nullptr ? "publish" : next->name)};
  }
  if (options.observer != nullptr) EVROS_TRY((*options.observer)(pass, next));
  const bool reads_table = table_ != nullptr && next != nullptr && next->run == model::kPleEmbed.run;
  return reads_table ? upload_table_rows(next->layer) : Status{};
}

Result<std::span<const Status>> Forward::run(std::span<const ForwardRow> rows, const ChunkOptions& options) {
  lay_out(rows);
  CHECK(ids_.size() <= static_cast<size_t>(limits_.rows) && rows.size() <= static_cast<size_t>(limits_.sequences));
  CHECK(!options.all_logits || limits_.logit_rows >= limits_.rows);
  const auto n = static_cast<int32_t>(ids_.size());
  const auto sequences = static_cast<int32_t>(rows.size());
  const int32_t page_tokens = model_.state.layout.page_tokens;
  first_seen_.assign(rows.size(), nullptr);
  running_ = nullptr;
  EVROS_TRY(upload_inputs());
  if (table_ != nullptr) hash_ngrams(rows);
  const model::Pass pass{
      &model_,
      &scratch_,
      {n, sequences, page_tokens, scratch_.sequence, scratch_.row_sequence, scratch_.row_position, scratch_.status},
      {sequences, sequences, page_tokens, scratch_.last_sequence, scratch_.last_row_sequence, scratch_.last_position,
       scratch_.status},
      options.all_logits};
  const auto before = [&](const model::Stage* next) { return before_stage(pass, next, options); };
  EVROS_TRY(model::run_stages(pass, stages_, device_, std::ref(before)));  // by reference: a copy would take memory
  return read_status(rows.size());
}

}  // namespace evros::engine
