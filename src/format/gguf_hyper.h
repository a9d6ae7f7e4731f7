// GGUF metadata -> HyperParams (docs/model.md 4.3). Private to format.
//
// Keys that Evros adds, for what the published keys cannot say: evros.output_gate_type (str "sigmoid" or "silu",
// default sigmoid), evros.norm_topk_prob (bool, default true), evros.tokenizer.nfc (bool), evros.eos_token_ids (arr
// int: every end of a reply), and several PLE layers: ple.layers lists them, the multipliers, head sizes and offsets of
// each follow one another in that order, and offsets count rows of the one concatenated table.
#pragma once

#include "format/gguf.h"
#include "format/hyper_params.h"

namespace evros::format {

/// `path` is the file that errors name. The result went through validate().
Result<HyperParams> hyper_from_gguf(const GgufMetadata& metadata, std::span<const GgufTensor> tensors,
                                    const std::string& path);

}  // namespace evros::format
