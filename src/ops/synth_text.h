// A made-up vocabulary of the real model's size (docs/model.md 7), for synth.
#pragma once

#include "format/model_file.h"

namespace evros::ops {

inline constexpr int32_t kSynthVocab = 248320;
inline constexpr int32_t kSynthEndOfText = 248044;
inline constexpr int32_t kSynthMerges = 247587;

/// 248,320 tokens with the real model's special ids, 247,587 merges and a plain chat template. A tokenizer accepts it:
/// every byte has a token, every merge joins tokens that exist, no text stands twice.
format::TextAssets synth_text();

}  // namespace evros::ops
