// The text side of a model file: its tokenizer, as the text folder wants it described, and how it likes to be sampled.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/sampler.h"
#include "format/model_file.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"

namespace evros::engine {

/// What the file says about its tokenizer and chat template.
text::TokenizerSpec tokenizer_spec(const format::ModelFile& file);

/// The file's tokenizer; an error names the file, and the key, when it has none, a wrong one, one with more ids than the model,
/// or an end of a reply that is no id of the model's.
Result<text::Tokenizer> load_tokenizer(const format::ModelFile& file);

/// What keeps programs from working with text on this model, a sentence each: load_tokenizer()'s error, and that of a chat template
/// which cannot be read. Takes as long as loading the tokenizer.
std::vector<std::string> text_problems(const format::ModelFile& file);

/// The file's own sampling settings; what it does not say stays as SamplingParams has it.
SamplingParams sampling_defaults(const format::ModelFile& file);

}  // namespace evros::engine
