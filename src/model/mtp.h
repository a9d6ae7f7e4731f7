// The draft head (docs/model.md section 3): one decoder layer that reads the trunk's wide residual at position t and
// the embedding of token t + 1, and proposes token t + 2. Drafts decide speed only; the trunk verifies every one of
// them.
//
//   e = RMS(embed(x_{t+1})) * embed_norm        n = RMS(h_t) * hidden_norm        x[s] = eh_proj . (e | n[s])
//   x = decoder layer (full attention over the head's own rows, experts)          logits = output . HCread_mtp(x)
//
// It sits at rotary position t, attends densely (its indexer is not used) and has no n-gram embedding. Rows are those
// of a Pass; the K/V rows go into pages that belong to the head, laid out by make_mtp_pages.
#pragma once

#include "model/pass.h"

namespace evros::model {

/// What one RMS mean of the hidden norm covers: implementations disagree (docs/model.md section 8, row 1), and the file
/// does not say which one its head was trained with. The gain is elementwise over all streams in both.
enum class HiddenNorm : uint8_t { grouped, flat };  // each stream by itself; all streams together

/// Where the head's rows lie in its pages: page p holds positions [p * page_tokens, (p + 1) * page_tokens).
struct MtpPages {
  kernels::PageRows k, v;
  uint64_t page_bytes;
};
MtpPages make_mtp_pages(const format::HyperParams& hyper, kernels::CacheType kv, int32_t page_tokens);

/// Device memory of one pass of the head: a Scratch whose attention scores are wide enough for dense attention, and two
/// arrays of the head alone. Inputs (ids, row tables, rope, status) are filled by the caller, as for the trunk; ids are
/// the tokens one position ahead.
struct MtpScratch {
  Scratch scratch;
  float* hidden;   // [R][wide] input: h_t, the trunk's residual after its last layer (or x of the last draft)
  float* joined;   // [R][hidden + wide]
  uint64_t bytes;  // of the whole arena
};
/// Lays it out from `base` (64-byte aligned; null only measures). limits.context: highest position + 1.
MtpScratch carve_mtp_scratch(const format::HyperParams& hyper, const PassLimits& limits, std::byte* base);

/// Runs the head over the rows of `pass`, whose scratch is mtp.scratch and whose sequences' pages are laid out by
/// `pages`; banks are not touched. Needs a model with a head (Weights::mtp). Afterwards scratch x holds the residual
/// that the next draft step takes as its `hidden`, and scratch logits one row for every row, or one for each sequence's
/// newest. Status words say which sequences came out finite. An error (the device's) leaves scratch and new rows in any
/// state.
Status run_mtp(const Pass& pass, const MtpScratch& mtp, const MtpPages& pages, HiddenNorm norm, device::Device& device);

}  // namespace evros::model
