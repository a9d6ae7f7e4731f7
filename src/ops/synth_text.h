// A made-up vocabulary of the real model's size (docs/model.md 7), for synth.
#pragma once

#include "format/model_file.h"

namespace evros::ops {

inline constexpr int32_t kSynthVocab = 248320;
inline constexpr int32_t kSynthEndOfText = 248044;
inline constexpr int32_t kSynthMerges = 247587;

/// The smallest vocabulary that synth_text() makes.
inline constexpr int32_t kSynthLeastVocab = 1024;

/// First special token of a vocabulary of that size: as far from its end as the real model has it.
constexpr int32_t synth_end_of_text(int32_t vocab) { return vocab - (kSynthVocab - kSynthEndOfText); }

/// `vocab` tokens with the real model's special tokens near the end, at most 247,587 merges and a plain chat template;
/// 248,320 give the real model's ids. A tokenizer accepts it: every byte has a token, every merge joins tokens that exist,
/// no text stands twice.
format::TextAssets synth_text(int32_t vocab = kSynthVocab);

}  // namespace evros::ops
