// Runs the stages of one chunk over private images: makes the pass inputs on the host (rope rows, n-gram rows, batch
// tables), hands them to the device, runs, and says which sequences came out clean. Publishes nothing.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "engine/engine.h"
#include "kernels/rope_table.h"
#include "model/pass.h"
#include "pages/row_store.h"
#include "state/store.h"

namespace evros::engine {

/// The private image of one sequence and what the host knows about it.
struct ForwardRow {
  const state::Image* image;
  std::span<const int32_t> tokens;
  std::vector<int64_t> history;  // raw ids before tokens[0], newest first, ngram_size - 1 of them, ple_eos where none
};

class Forward {
 public:
  /// `model` and `table` (null without PLE) outlive it. Takes its scratch from the device and all that it needs on the host
  /// at once: run() takes no memory, except for the sentence of an error.
  static Result<std::unique_ptr<Forward>> create(const model::Model& model, pages::RowStore* table,
                                                 device::Device& device, const model::PassLimits& limits);

  /// Status of each sequence after the pass, valid until the next, or an error that no sequence is to blame for.
  Result<std::span<const Status>> run(std::span<const ForwardRow> rows, const ChunkOptions& options);

  uint64_t scratch_bytes() const { return scratch_.bytes; }

 private:
  Forward(const model::Model& model, pages::RowStore* table, device::Device& device, const model::PassLimits& limits);
  void reserve();
  void lay_out(std::span<const ForwardRow> rows);
  Status upload_inputs();
  Status upload_rope();
  /// Fills table_rows_ and announces them to the table.
  void hash_ngrams(std::span<const ForwardRow> rows);
  /// Those of the n-gram layer `layer`, just before its first stage: until then the disk has had time.
  Status upload_table_rows(int32_t layer);
  /// `next` is null after the last stage.
  Status before_stage(const model::Pass& pass, const model::Stage* next, const ChunkOptions& options);
  /// Where the host sees the status words at once: after which stage each sequence's was first non-finite, for the sentence.
  void note_first_seen(const model::Stage* next);
  Result<std::span<const Status>> read_status(size_t sequences);

  template <typename T>
  Status upload(T* to, const std::vector<T>& from) {
    return device_.upload(reinterpret_cast<std::byte*>(to), std::as_bytes(std::span<const T>(from)));
  }

  const model::Model& model_;
  pages::RowStore* table_;
  device::Device& device_;
  model::PassLimits limits_;
  kernels::RopeTable rope_;
  std::vector<model::Stage> stages_;
  device::Buffer memory_;
  model::Scratch scratch_;

  // The pass in hand, host side; each with room for the largest.
  std::vector<int32_t> ids_, row_sequence_, last_row_sequence_;
  std::vector<int64_t> row_position_, last_position_, history_, position_;
  std::vector<kernels::SequenceRows> sequence_, last_sequence_;
  std::vector<float> rope_rows_;
  std::vector<int64_t> window_;
  std::vector<uint64_t> table_rows_;  // of each n-gram layer, of each token, of each head
  std::vector<std::byte> encoded_;
  pages::Lease lease_;  // holds nothing between passes
  std::vector<uint32_t> status_words_;
  std::vector<Status> statuses_;
  std::vector<const model::Stage*> first_seen_;  // of each sequence; null: never, or the device does not show it
  const model::Stage* running_ = nullptr;        // the stage that was enqueued last
  std::vector<const std::byte*> pages_;
};

}  // namespace evros::engine
