// Any bytes as a request's body, to every reader of the server: parsed, rendered and encoded with a small model's text side.
// What is accepted is within the limits; what is refused says why.
#include "base/check.h"
#include "server/json_body.h"
#include "server/openai_request.h"

using namespace evros;          // NOLINT(google-build-using-namespace)
using namespace evros::server;  // NOLINT(google-build-using-namespace)

namespace {

/// 256 bytes, a few merges, and the family's special tokens.
text::TokenizerSpec small_spec() {
  text::TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = "qwen35";
  const auto add = [&](std::string token, int32_t type) {
    spec.tokens.push_back(std::move(token));
    spec.token_types.push_back(type);
  };
  int extra = 256;
  for (int byte = 0; byte < 256; ++byte) {  // the byte alphabet of GPT-2
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int code_point = printable ? byte : extra++;
    std::string token;
    if (code_point < 0x80) {
      token += static_cast<char>(code_point);
    } else {
      token += static_cast<char>(0xC0 | code_point >> 6);
      token += static_cast<char>(0x80 | (code_point & 0x3F));
    }
    add(std::move(token), 1);
  }
  for (const char* merged : {"us", "er", "user"}) add(merged, 1);
  spec.merges = {"u s", "e r", "us er"};
  for (const char* control : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) add(control, 3);
  for (const char* tag : {"<think>", "</think>"}) add(tag, 4);
  spec.eos_ids = {261, 259};
  return spec;
}

const ModelText& small_model() {
  static const ModelText made = [] {
    ModelText out{.tokenizer = text::Tokenizer::create(small_spec()).value(),
                  .chat = text::ChatFormat::create("").value()};
    out.names = {"m"};
    out.context = 4096;
    out.vocab = out.tokenizer.vocab_size();
    out.most_replies = 16;
    out.im_start_id = out.tokenizer.find("<|im_start|>").value();
    out.think_id = out.tokenizer.find("<think>").value();
    out.think_end_id = out.tokenizer.find("</think>").value();
    out.closing = out.tokenizer.encode("\n</think>\n\n").value();
    return out;
  }();
  return made;
}

void check_refusal(const ApiError& error) {
  CHECK(error.status == 400 || error.status == 404 || error.status == 507);
  CHECK(!error.message.empty());
  boost::json::error_code fault;
  boost::json::parse(openai_error(error), fault);
  CHECK(!fault);
}

void check_completion(const Completion& completion) {
  CHECK(!completion.requests.empty() && completion.format != nullptr);
  for (const engine::Request& request : completion.requests) {
    CHECK(!request.prompt.empty() && static_cast<int64_t>(request.prompt.size()) <= small_model().context);
    for (const int32_t id : request.prompt) CHECK(small_model().tokenizer.contains(id));
    CHECK(request.n >= 1 && request.n <= 16 && request.reply.stop.size() <= 16);
    CHECK(engine::validate(request.reply, small_model().vocab).ok());
    int64_t before = 0;
    for (const int64_t at : request.keep_at) {
      CHECK(at > before && at <= static_cast<int64_t>(request.prompt.size()));
      before = at;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(bytes), size);
  for (const auto read : {read_chat, read_completions}) {
    Completion completion;
    const Refusal wrong = read(body, small_model(), completion);
    wrong ? check_refusal(*wrong) : check_completion(completion);
  }
  for (const auto convert : {tokenize, detokenize}) {
    std::string answer;
    if (const Refusal wrong = convert(body, small_model(), answer)) check_refusal(*wrong);
  }
  return 0;
}
