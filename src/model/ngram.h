// The n-gram hash of the PLE (docs/model.md 2.8): from the newest ids of a sequence to rows of the table.
#pragma once

#include <cstdint>
#include <span>

#include "format/hyper_params.h"

namespace evros::model {

/// Rows of the table for the token whose raw ids are `window`: window[0] the token itself, window[i] the id i places before
/// it, ple_eos where the sequence has none. The EOS cut is applied here: a predecessor that equals ple_eos turns itself and
/// everything older into ple_eos; the token itself does not cut. window.size() == ngram_size, rows.size() == ple_heads().
void ngram_rows(const format::HyperParams& hyper, const format::PleLayer& ple, std::span<const int64_t> window,
                std::span<uint64_t> rows);

}  // namespace evros::model
