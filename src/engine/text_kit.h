// The text side of a model file: its tokenizer, as the text folder wants it described, and how it likes to be sampled.
#pragma once

#include "base/result.h"
#include "engine/sampler.h"
#include "format/model_file.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"

namespace evros::engine {

/// What the file says about its tokenizer and chat template.
text::TokenizerSpec tokenizer_spec(const format::ModelFile& file);

/// The file's tokenizer; an error names the file when it has none or a wrong one, or one with more ids than the model.
Result<text::Tokenizer> load_tokenizer(const format::ModelFile& file);

/// The file's own sampling settings; what it does not say stays as SamplingParams has it.
SamplingParams sampling_defaults(const format::ModelFile& file);

}  // namespace evros::engine
