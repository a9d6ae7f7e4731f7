#include "ops/synth_text.h"

#include "base/str.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer_spec.h"
#include "text/utf8.h"

namespace evros::ops {
namespace {

struct Special {
  const char* text;
  int32_t type;
};

/// From synth_end_of_text() on.
constexpr Special kSpecial[] = {
    {"<|endoftext|>", text::kTokenControl},       {"<|im_start|>", text::kTokenControl},
    {"<|im_end|>", text::kTokenControl},          {"<|object_ref_start|>", text::kTokenControl},
    {"<|object_ref_end|>", text::kTokenControl},  {"<|box_start|>", text::kTokenControl},
    {"<|box_end|>", text::kTokenControl},         {"<|quad_start|>", text::kTokenControl},
    {"<|quad_end|>", text::kTokenControl},        {"<|vision_start|>", text::kTokenControl},
    {"<|vision_end|>", text::kTokenControl},      {"<|vision_pad|>", text::kTokenControl},
    {"<|image_pad|>", text::kTokenControl},       {"<|video_pad|>", text::kTokenControl},
    {"<tool_call>", text::kTokenUserDefined},     {"</tool_call>", text::kTokenUserDefined},
    {"<|fim_prefix|>", text::kTokenControl},      {"<|fim_middle|>", text::kTokenControl},
    {"<|fim_suffix|>", text::kTokenControl},      {"<|fim_pad|>", text::kTokenControl},
    {"<|repo_name|>", text::kTokenControl},       {"<|file_sep|>", text::kTokenControl},
    {"<tool_response>", text::kTokenUserDefined}, {"</tool_response>", text::kTokenUserDefined},
    {"<think>", text::kTokenUserDefined},         {"</think>", text::kTokenUserDefined},
    {"<|audio_start|>", text::kTokenControl},     {"<|audio_end|>", text::kTokenControl},
    {"<tts_pad>", text::kTokenControl},           {"<tts_text_bos>", text::kTokenControl},
    {"<tts_text_eod>", text::kTokenControl},      {"<tts_text_bos_single>", text::kTokenControl},
    {"<|audio_pad|>", text::kTokenControl}};

constexpr const char* kChatTemplate =
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{%- "
    "endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

/// The 256 byte tokens, then pairs, then triples, each the merge of what came before and one byte; the last ordinary
/// rows, for which there is no merge left, are longer.
class Vocabulary {
 public:
  Vocabulary(format::TextAssets& out, int32_t vocab) : out_(out), vocab_(vocab) {}

  void run() {
    const int32_t ordinary = synth_end_of_text(vocab_);
    for (const uint16_t code_point : text::kByteAlphabet) {
      std::string byte;
      text::append_utf8(byte, code_point);
      add(std::move(byte), text::kTokenNormal);
    }
    for (size_t left = 0; size() < ordinary; ++left) {
      for (size_t byte = 0; byte < 256 && size() < ordinary; ++byte) extend(left, byte);
    }
    for (const Special& special : kSpecial) add(special.text, special.type);
    while (size() < vocab_) add(cat("[PAD", size(), ']'), text::kTokenUnused);
  }

 private:
  int32_t size() const { return static_cast<int32_t>(out_.tokens.size()); }
  void add(std::string token, int32_t type) {
    out_.tokens.push_back(std::move(token));
    out_.token_types.push_back(type);
  }
  void extend(size_t left, size_t byte) {
    if (out_.merges.size() < kSynthMerges) out_.merges.push_back(cat(out_.tokens[left], ' ', out_.tokens[byte]));
    add(cat(out_.tokens[left], out_.tokens[byte]), text::kTokenNormal);
  }

  format::TextAssets& out_;
  int32_t vocab_;
};

}  // namespace

format::TextAssets synth_text(int32_t vocab) {
  const int32_t end_of_text = synth_end_of_text(vocab);
  format::TextAssets out;
  out.model = "gpt2";
  out.pre = "qwen35";
  out.eos_ids = {end_of_text + 2, end_of_text};
  out.bos_id = end_of_text;
  out.pad_id = end_of_text;
  out.chat_template = kChatTemplate;
  Vocabulary(out, vocab).run();
  return out;
}

}  // namespace evros::ops
