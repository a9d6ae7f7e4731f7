// CUDA kernels that bring rows from one place to another: out of tables of weights, and to the end of a chunk.
#include "kernels/codec/codec.h"
#include "kernels/cuda/grid.h"
#include "kernels/layout.h"
#include "kernels/ref/ref.h"

namespace evros::kernels {
inline namespace EVROS_ISA {
namespace {

__device__ int64_t last_row(const SequenceRows& sequence) { return int64_t{sequence.first_row} + sequence.rows - 1; }

template <typename Codec>
__device__ void put(const std::byte* bytes, float* out, int64_t copies, int64_t copy_stride) {
  float values[Codec::kBlock];
  Codec::decode(bytes, values);
  for (int64_t c = 0; c < copies; ++c) {
    for (int i = 0; i < Codec::kBlock; ++i) out[c * copy_stride + i] = values[i];
  }
}

/// A thread per row of the batch and block of its row of the table.
template <typename Codec>
__global__ void __launch_bounds__(kThreads) embed_kernel(Batch batch, EmbedArgs a) {
  const int64_t blocks = a.table.cols / Codec::kBlock, unit = thread_index(), r = unit / blocks, block = unit % blocks;
  if (r >= batch.rows) return;
  float* out = a.out + r * a.out_stride + block * Codec::kBlock;
  const int64_t id = a.ids[r];
  if (id >= 0 && id < a.table.rows) {
    std::byte bytes[Codec::kBytes];
    gather_block(strip_of(a.table, id / kStripRows), id % kStripRows, block, pieces_of(a.table.type, Codec::kBytes),
                 bytes);
    return put<Codec>(bytes, out, a.copies, a.table.cols);
  }
  set_status(batch, r, kIndexRange);
  for (int64_t c = 0; c < a.copies; ++c) {
    for (int i = 0; i < Codec::kBlock; ++i) out[c * a.table.cols + i] = 0.0f;
  }
}

/// A thread per row of the batch, head, and block of the head's encoded row.
template <typename Codec>
__global__ void __launch_bounds__(kThreads) ple_rows_kernel(Batch batch, PleRowsArgs a) {
  const int64_t blocks = a.width / Codec::kBlock, unit = thread_index(), row = unit / blocks, block = unit % blocks;
  const int64_t r = row / a.heads, head = row % a.heads;
  if (r >= batch.rows) return;
  put<Codec>(a.encoded + row * a.row_bytes + block * Codec::kBytes,
             a.out + r * a.out_stride + head * a.width + block * Codec::kBlock, 1, 0);
}

}  // namespace

void embed(device::Queue& queue, const Batch& batch, const EmbedArgs& a) {
  with_codec(a.table.type, [&]<typename Codec>() {
    const int64_t threads = batch.rows * (a.table.cols / Codec::kBlock);
    launch(queue, round_up_div(threads, kThreads), kThreads, embed_kernel<Codec>, batch, a);
  });
}

void ple_rows(device::Queue& queue, const Batch& batch, const PleRowsArgs& a) {
  with_codec(a.type, [&]<typename Codec>() {
    const int64_t threads = int64_t{batch.rows} * a.heads * (a.width / Codec::kBlock);
    launch(queue, round_up_div(threads, kThreads), kThreads, ple_rows_kernel<Codec>, batch, a);
  });
}

void keep_last(device::Queue& queue, const Batch& batch, const KeepLastArgs& a) {
  for_each_element(queue, batch.sequences, a.width, [=] __device__(int64_t s, int64_t i) {
    const SequenceRows& sequence = batch.sequence[s];
    if (sequence.rows == 0) return;
    const uint32_t* from = reinterpret_cast<const uint32_t*>(a.x + last_row(sequence) * a.x_stride);
    reinterpret_cast<uint32_t*>(sequence.bank_out + a.bank_offset)[i] = from[i];
  });
}

void gather_last(device::Queue& queue, const Batch& batch, const GatherLastArgs& a) {
  for_each_element(queue, batch.sequences, a.width, [=] __device__(int64_t s, int64_t i) {
    const SequenceRows& sequence = batch.sequence[s];
    if (sequence.rows == 0) return;
    a.y[s * a.y_stride + i] = a.x[last_row(sequence) * a.x_stride + i];
  });
}

void keep_routes(device::Queue& queue, const Batch& batch, const KeepRoutesArgs& a) {
  for_each_element(queue, batch.sequences, a.used, [=] __device__(int64_t s, int64_t i) {
    const SequenceRows& sequence = batch.sequence[s];
    if (sequence.rows == 0) return;
    reinterpret_cast<int32_t*>(sequence.bank_out + a.bank_offset)[i] = a.ids[last_row(sequence) * a.used + i];
  });
}

}  // namespace EVROS_ISA
}  // namespace evros::kernels
