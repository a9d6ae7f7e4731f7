#include "engine/text_kit.h"

#include "base/str.h"
#include "text/chat.h"

namespace evros::engine {

text::TokenizerSpec tokenizer_spec(const format::ModelFile& file) {
  const format::TextAssets& assets = file.text();
  text::TokenizerSpec spec;
  spec.tokenizer_json = assets.tokenizer_json;
  spec.model = assets.model;
  spec.pre = assets.pre;
  spec.tokens = assets.tokens;
  spec.token_types = assets.token_types;
  spec.merges = assets.merges;
  spec.eos_ids = assets.eos_ids;
  spec.nfc = assets.nfc;
  spec.chat_template = assets.chat_template;
  return spec;
}

Result<text::Tokenizer> load_tokenizer(const format::ModelFile& file) {
  const text::TokenizerSpec spec = tokenizer_spec(file);
  if (spec.tokenizer_json.empty() && spec.tokens.empty()) {
    return Error{Code::not_found,
                 cat(file.path(),
                     ": the model has no tokenizer (no tokenizer.json, no tokenizer.ggml.tokens), so it "
                     "can be run with token ids only")};
  }
  if (!file.text().wrong_end.empty()) return Error{Code::bad_file, file.text().wrong_end};
  auto tokenizer = text::Tokenizer::create(spec);
  if (!tokenizer.ok()) return Error{tokenizer.error().code, cat(file.path(), ": ", tokenizer.error().message)};
  if (tokenizer->vocab_size() > file.hyper().vocab) {
    return Error{Code::bad_file, cat(file.path(), ": the tokenizer has ", tokenizer->vocab_size(), " ids, the model ",
                                     file.hyper().vocab)};
  }
  return std::move(tokenizer).value();
}

std::vector<std::string> text_problems(const format::ModelFile& file) {
  std::vector<std::string> problems;
  if (const auto tokenizer = load_tokenizer(file); !tokenizer.ok()) problems.push_back(tokenizer.error().message);
  if (const auto chat = text::ChatFormat::create(file.text().chat_template); !chat.ok())
    problems.push_back(cat(file.path(), ": the chat template cannot be used: ", chat.error().message));
  return problems;
}

SamplingParams sampling_defaults(const format::ModelFile& file) {
  const format::SamplingDefaults& said = file.sampling();
  SamplingParams out;
  out.temperature = said.temperature.value_or(out.temperature);
  out.top_k = said.top_k.value_or(out.top_k);
  out.top_p = said.top_p.value_or(out.top_p);
  return out;
}

}  // namespace evros::engine
