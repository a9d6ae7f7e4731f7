// The private scratch of one forward pass: every intermediate of the stages, sized once for the largest chunk. Nothing here
// outlives a pass; state does (model/state_layout.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "format/hyper_params.h"
#include "kernels/kernels.h"

namespace evros::model {

/// The largest pass that a scratch can hold.
struct PassLimits {
  int32_t rows = 1;  // tokens of all sequences together
  int32_t sequences = 1;
  int32_t logit_rows = 1;  // rows that may get logits in one pass; >= sequences
  int64_t context = 1;     // highest frontier after the pass
  bool trace = false;      // keep ple_added
};

/// Device pointers, [rows][...] row-major. R rows, S sequences; dimensions by their HyperParams names.
struct Scratch {
  // Inputs, made on the host for each pass (engine/forward).
  int32_t* ids;                          // [R]
  int32_t* row_sequence;                 // [R]
  int64_t* row_position;                 // [R]
  kernels::SequenceRows* sequence;       // [S]
  kernels::SequenceRows* last_sequence;  // [S] one row each: row s is the newest token of sequence s
  const std::byte** pages;               // addresses of the pages of all sequences, one list behind the other
  int32_t* last_row_sequence;            // [S] 0, 1, 2, ...
  int64_t* last_position;                // [S]
  float* rope;                           // [R][rope_dims/2][2] at the row's position
  std::vector<float*> block_rope;        // [layers] at position - (ratio - 1); layers of one ratio share it
  int64_t* history;                      // [S][ngram_size-1] raw ids after the pass, oldest first
  int64_t* position;                     // [S][3] next rope position after the pass
  std::vector<std::byte*> ple_encoded;   // [ple layers], [R][ple_heads] encoded table rows
  uint32_t* status;                      // [S]

  // Residual and hyper-connections.
  float *x, *normed, *up;  // [R][wide]
  float* lo;               // [R][hc_lowrank]
  float* inject;           // [R][hc]
  float *u, *y;            // [R][hidden]
  kernels::QuantRows xq;   // [R][largest input dimension]

  // Gated DeltaNet.
  float *qkv, *conv;    // [R][conv_channels]
  float *z, *o;         // [R][linear_value_heads*linear_value_dim]
  float *alpha, *beta;  // [R][linear_value_heads]

  // Attention.
  float* q_gate;             // [R][heads][key_dim + value_dim]
  float* q;                  // [R][heads*key_dim]
  float *k, *v;              // [R][kv_heads*key_dim], [R][kv_heads*value_dim]
  float *index_q, *index_k;  // [R][index_heads*index_dim], [R][index_dim]
  float* index_scores;       // [R][index_score_stride]
  int64_t index_score_stride;
  int32_t* selected;  // [R][keep]
  float* scores;      // [R][heads][score_stride]
  int64_t score_stride;
  float* attended;  // [R][heads*value_dim]

  // Experts.
  float* router;                   // [R][experts]
  int32_t* expert_ids;             // [R][used]
  float* expert_weights;           // [R][used]
  float* expert_hidden;            // [2][R][used][expert_ff]
  kernels::QuantRows expert_q;     // [R*used][expert_ff]
  float* expert_out;               // [R][used][hidden]
  int32_t* expert_order;           // [R][used]
  int32_t* expert_first;           // [experts + 1]
  float *shared_gate, *shared_up;  // [R][shared_ff]
  float* shared;                   // [R][hidden]
  float* shared_router;            // [R]

  // PLE.
  float* ple_embedding;                 // [R][ple_embed_dim]
  float *ple_key, *ple_query, *ple_gv;  // [R][wide]
  float* ple_value;                     // [R][hidden]
  float* ple_added;                     // [ple layers][R][wide], null unless traced

  // Head.
  float* last_x;  // [S][wide]
  float* logits;  // [logit_rows][vocab]

  uint64_t bytes;  // of the whole arena
};

/// Positions that attention of one row of layer `layer` can see at most, at frontier `context`.
int64_t visible_positions(const format::HyperParams& hyper, int32_t layer, int64_t context);

/// Blocks that one row of the layer keeps: floor(budget / ratio); 0 on dense layers.
int32_t kept_blocks(const format::HyperParams& hyper, int32_t layer);

/// Lays the scratch out from `base` (64-byte aligned; null only measures). ple_row_bytes: encoded bytes of a table row.
Scratch carve_scratch(const format::HyperParams& hyper, const PassLimits& limits, int64_t ple_row_bytes,
                      std::byte* base);

}  // namespace evros::model
