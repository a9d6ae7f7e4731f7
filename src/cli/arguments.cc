#include "cli/arguments.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "cli/validators.h"
#include "engine/engine.h"
#include "ops/synth_random.h"

namespace evros::cli {
namespace {

constexpr const char* kModelHelp =
    "a GGUF file (any of a split set) or a safetensors folder; without it, the bundled model";

/// A list that grows by repeating the option; it does not swallow the arguments that follow.
CLI::Option* add_list(CLI::App& app, const std::string& name, std::vector<std::string>& list, const std::string& help) {
  return app.add_option(name, list, help)->allow_extra_args(false);
}

/// The same for numbers from `least` up, also several with commas in between. CLI11's own delimiter would pass over an entry
/// that is empty.
template <typename N>
CLI::Option* add_numbers(CLI::App& app, const std::string& name, std::vector<N>& list, N least,
                         const std::string& help) {
  const auto each = [](const std::string& text, const auto& use) {
    for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
      end = text.find(',', begin);
      use(text.substr(begin, end - begin));
    }
  };
  const auto check = [=](std::string& text) {
    std::string wrong;
    each(text, [&](std::string part) {
      if (wrong.empty()) wrong = number<N>(least)(part);
    });
    return wrong;
  };
  const auto store = [=, &list](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      each(text, [&](const std::string& part) {
        std::from_chars(part.data(), part.data() + part.size(), list.emplace_back());
      });
    }
  };
  return app.add_option_function<std::vector<std::string>>(name, store, help)
      ->type_name("INT")
      ->allow_extra_args(false)
      ->check(CLI::Validator(check, ""));
}

CLI::Option* add_tokens(CLI::App& app, const std::string& name, std::vector<int32_t>& list, const std::string& help) {
  return add_numbers<int32_t>(app, name, list, 0, help);
}

void add_model(CLI::App& app, ModelArguments& a) {
  const std::vector<std::string> kernels = engine::kernel_names();
  app.add_option("MODEL", a.model, kModelHelp)->check(not_empty());
  app.add_option("--ctx", a.context,
                 "longest session in tokens (default: the model's, at most 32768, or what fits in memory)")
      ->transform(number<int64_t>(1));
  app.add_option("--kv", a.kv, "type of the K/V cache: f32, f16, bf16")
      ->capture_default_str()
      ->transform(one_of({"f32", "f16", "bf16"}));
  app.add_option("--numerics", a.numerics, "N1, or N1-f32: quantised weights with float activations")
      ->capture_default_str()
      ->transform(one_of({"N1", "N1-f32"}));
  app.add_option("--device", a.device,
                 "where it runs: cpu, cuda (the GPU, or an error), or auto (the GPU if there is one)")
      ->capture_default_str()
      ->transform(one_of({"cpu", "cuda", "auto"}));
  app.add_option("--threads", a.threads, "threads (default: one per core)")->transform(number(1, 1024));
  app.add_option("--chunk", a.chunk, "tokens in one chunk at most")->capture_default_str()->transform(number(1, 65536));
  app.add_option(
         "--kernels", a.kernels,
         cat("kernel table of the CPU by name: ", CLI::detail::join(kernels, ", "), " (default: ", kernels.back(), ")"))
      ->transform(one_of(kernels));
  app.add_option("--ple", a.ple, "where the n-gram table lives: disk (read as needed) or ram")
      ->capture_default_str()
      ->transform(one_of({"disk", "ram"}));
  app.add_option("--ple-memory-mb", a.ple_memory_mb, "memory for table rows with --ple disk")
      ->capture_default_str()
      ->transform(number<uint64_t>(1, 1 << 20));
  app.add_option("--memory-mb", a.memory_mb, "MiB that the process may use in all (default: what is measured)")
      ->transform(number<uint64_t>(1, uint64_t{1} << 32));
}

/// ID=VALUE, such as 42=-1.5.
bool read_bias(const std::string& entry, int32_t& id, float& bias) {
  const char* const end = entry.data() + entry.size();
  const auto [equals, error] = std::from_chars(entry.data(), end, id);
  if (error != std::errc() || id < 0 || equals == end || *equals != '=') return false;
  const auto [stop, value_error] = std::from_chars(equals + 1, end, bias);
  return value_error == std::errc() && stop == end && std::abs(bias) <= std::numeric_limits<float>::max();
}

void add_logit_bias(CLI::App& app, RunArguments& a) {
  const auto check = [](std::string& entry) -> std::string {
    int32_t id = 0;
    float bias = 0;
    return read_bias(entry, id, bias) ? "" : cat(quote(entry), " is not ID=VALUE, such as 42=-1.5");
  };
  const auto store = [&a](const std::vector<std::string>& entries) {
    for (const std::string& entry : entries) {
      int32_t id = 0;
      float bias = 0;
      if (read_bias(entry, id, bias)) a.logit_bias[id] = bias;
    }
  };
  app.add_option_function<std::vector<std::string>>("--logit-bias", store,
                                                    "ID=VALUE, added to the logit of a token; may be repeated")
      ->allow_extra_args(false)
      ->check(CLI::Validator(check, ""));
}

void add_sampling(CLI::App& app, RunArguments& a) {
  constexpr float kAboveZero = std::numeric_limits<float>::denorm_min();
  app.add_option("--temp", a.temperature, "temperature; 0 is greedy (default: the model's)")->transform(number(0.0f));
  app.add_option("--top-k", a.top_k, "keep the k most probable tokens; 0 keeps all")->transform(number<int32_t>(0));
  app.add_option("--top-p", a.top_p, "keep the most probable tokens that reach this mass")
      ->transform(number(kAboveZero, 1.0f, "a number above 0 and at most 1"));
  app.add_option("--min-p", a.min_p, "drop tokens below this share of the most probable one")
      ->transform(number(0.0f, 1.0f));
  app.add_option("--repetition-penalty", a.repetition_penalty, "divides the logits of tokens seen; 1 is off")
      ->transform(number(kAboveZero, std::numeric_limits<float>::max(), "a number above 0"));
  app.add_option("--presence-penalty", a.presence_penalty, "subtracted once from tokens of the reply so far")
      ->transform(number(-100.0f, 100.0f));
  app.add_option("--frequency-penalty", a.frequency_penalty, "subtracted per occurrence in the reply so far")
      ->transform(number(-100.0f, 100.0f));
  add_logit_bias(app, a);
  app.add_option("--seed", a.seed, "seed of the generator (default: from the clock, printed at the end)")
      ->transform(number<uint64_t>(0));
}

void add_run(CLI::App& root, RunArguments& a) {
  CLI::App& app = *root.add_subcommand("run", "answer one prompt, or chat when there is none");
  add_model(app, a.model);
  CLI::Option* prompt = app.add_option("-p,--prompt", a.prompt, "the prompt (one-shot)");
  prompt->each([&a](const std::string&) { a.has_prompt = true; });
  app.add_option("-f,--file", a.file, "read the prompt from a file or pipe; - is standard input")
      ->check(not_empty())
      ->excludes(prompt);
  CLI::Option* raw = app.add_flag(
      "--raw", a.raw,
      "continue the text of -p, -f or standard input as it stands, without the chat template; not in a chat");
  app.add_option("-s,--system", a.system, "system message")->excludes(raw);
  app.add_option("--session", a.session, "go on from this file when it exists, and save to it after each reply")
      ->check(not_empty());
  CLI::Option* think = app.add_flag("--think", a.think, "let the model think first (the template's default)");
  think->excludes(raw);
  app.add_flag("--no-think", a.no_think, "answer at once")->excludes(think)->excludes(raw);
  app.add_option("-n,--max-tokens", a.max_tokens, "longest reply in tokens (default: until the context is full)")
      ->transform(number<int64_t>(0));
  add_sampling(app, a);
  add_list(app, "--stop", a.stop, "end the reply before this text; may be repeated")->check(not_empty());
  add_tokens(app, "--stop-id", a.stop_ids, "end the reply at this token id; may be repeated");
  app.add_flag("--ignore-eos", a.ignore_eos, "do not end at the model's own end-of-reply tokens");
  app.add_flag("--show-special", a.show_special, "show control tokens");
  app.add_flag("-q,--quiet", a.quiet, "print the answer alone: no thoughts, no statistics");
}

void add_inspect(CLI::App& root, InspectArguments& a) {
  CLI::App& app = *root.add_subcommand("inspect", "header, tensors, memory and placement plan of a model");
  add_model(app, a.model);
  app.add_flag("--tensors", a.tensors, "list every tensor");
  app.add_flag("--json", a.json, "print JSON");
}

void add_tokenize(CLI::App& root, TokenizeArguments& a) {
  CLI::App& app = *root.add_subcommand("tokenize", "text to token ids and back");
  app.add_option("MODEL", a.model, kModelHelp)->check(not_empty());
  CLI::Option* text = app.add_option("-p,--text", a.text, "the text");
  text->each([&a](const std::string&) { a.has_text = true; });
  CLI::Option* file = app.add_option(
      "-f,--file", a.file, "read the text from a file or pipe; without -p and -f, or with -f -, from standard input");
  file->check(not_empty())->excludes(text);
  add_tokens(app, "--decode", a.decode, "token ids to turn into text, with commas")->excludes(text)->excludes(file);
  app.add_flag("--plain", a.plain, "special tokens in the text are text");
  app.add_flag("--json", a.json,
               "print JSON; \"bytes\", in hex, stands beside the text of a token that is not whole UTF-8");
}

void add_convert(CLI::App& root, ConvertArguments& a) {
  CLI::App& app =
      *root.add_subcommand("convert", "safetensors folder or GGUF -> GGUF, in other types if wanted")
           ->alias("quantize")
           ->footer(
               "Every published type is read; those of --type are written. Norms, convolutions and gates are F32, "
               "rows that do not fit blocks of 256 get a type with smaller ones.");
  app.add_option("FROM", a.from, "a safetensors folder or a GGUF file")->required()->check(not_empty());
  app.add_option("TO", a.to, "the GGUF file to write")->required()->check(not_empty());
  app.add_option("--type", a.type, "type of the matrices: f32, f16, bf16, q8_0, q6_k, q5_k, q4_k, q4_0, iq4_nl")
      ->capture_default_str()
      ->transform(one_of({"f32", "f16", "bf16", "q8_0", "q6_k", "q5_k", "q4_k", "q4_0", "iq4_nl"}));
  app.add_option("--table-type", a.table_type,
                 "type of the n-gram table: f32, f16, bf16, q8_0, q5_1, q4_0, iq4_nl (default: iq4_nl with q4_k and "
                 "q5_k, q8_0 with q6_k, "
                 "else that of --type)")
      ->transform(one_of({"f32", "f16", "bf16", "q8_0", "q5_1", "q4_0", "iq4_nl"}));
  app.add_option(
         "--imatrix", a.imatrix,
         "weigh the columns of the weights by this file of evros imatrix (or llama.cpp's, as GGUF); q4_k, q5_k and "
         "q6_k do, the other types ignore it")
      ->check(not_empty());
  app.add_option("--name", a.name, "general.name of the new file")->check(one_line());
  app.add_option("--threads", a.threads, "threads (default: one per core)")->transform(number(1, 1024));
  app.add_flag("--no-mtp", a.no_mtp, "leave the draft head out");
  app.add_flag("--resume", a.resume, "go on where the same command was stopped, and keep TO.partial when this one is");
  app.add_flag("-q,--quiet", a.quiet, "no progress");
}

void add_synth(CLI::App& root, SynthArguments& a) {
  CLI::App& app = *root.add_subcommand("synth", "a model file without a model, for tests of size and speed");
  app.add_option("TO", a.to, "the GGUF file to write; a split set is written as TO-00001-of-0000N.gguf")
      ->required()
      ->check(not_empty());
  app.add_option("--shape", a.shape, "real: the widths of the published model")
      ->capture_default_str()
      ->transform(one_of({"real"}));
  CLI::Option* sparse =
      app.add_flag("--sparse", a.sparse,
                   "all 1,224 published tensors and their types, with holes instead of weights: 111 GB "
                   "apparent, megabytes on disk (without it: random weights)");
  const auto random = [&](const char* name, auto& value, auto check, const char* help) {
    app.add_option(name, value, help)->capture_default_str()->transform(check)->excludes(sparse);
  };
  random("--layers", a.layers, number(2, 1024), "layers, 2 to 1024");
  random("--experts", a.experts, number(10, 65536), "experts a layer, 10 (what a token uses) to 65536");
  random("--vocab", a.vocab, number(1024, 1 << 20), "tokens of the vocabulary, 1024 to 1048576");
  random("--table-rows", a.table_rows, number<uint64_t>(1024, 320'001'536),
         "rows of the n-gram table, 1024 to 320001536");
  random("--type", a.type, one_of(ops::random_types()), "type of the matrices, or mix: as in a published 4-bit file");
  random("--seed", a.seed, number<uint64_t>(0), "of the weights");
  app.add_option("--threads", a.threads, "threads (default: one per core)")->transform(number(1, 1024));
  app.add_flag("-q,--quiet", a.quiet, "no progress");
}

void add_trace(CLI::App& root, TraceArguments& a) {
  CLI::App& app = *root.add_subcommand("trace", "run token ids and write every intermediate that others can check");
  add_model(app, a.model);
  add_tokens(app, "--tokens", a.tokens, "token ids, with commas")->required();
  add_numbers<int64_t>(app, "--chunks", a.chunks, 1,
                       "chunk sizes, with commas, repeated to the end (default: all at once)");
  app.add_option("--greedy", a.greedy, "also draw this many greedy tokens")->transform(number<int64_t>(0));
  app.add_option("--prefix", a.prefix, "name of the sequence in the file")->capture_default_str();
  app.add_option("--out", a.out, "the safetensors file to write")->required()->check(not_empty());
}

void add_bench(CLI::App& root, BenchArguments& a) {
  CLI::App& app = *root.add_subcommand("bench", "speed by context length, beside what the machine can do");
  add_model(app, a.model);
  app.remove_option(app.get_option("--ctx"));
  app.add_option("--ctx,--max-context", a.model.context, "longest context (default: the model's, at most 32768)")
      ->transform(number<int64_t>(1));
  CLI::Option* stages = app.add_flag("--stages", a.stages, "the time of every stage instead");
  add_numbers<int64_t>(app, "--contexts", a.contexts, 1, "context lengths, with commas (default: 512, 2048, 8192, ...)")
      ->excludes(stages);
  app.add_option("--prompt", a.prompt, "tokens of each prefill that is timed, the last ones of its context")
      ->capture_default_str()
      ->transform(number<int64_t>(1));
  app.add_option("--decode", a.decode, "tokens decoded after each context")
      ->capture_default_str()
      ->transform(number<int64_t>(1));
  app.add_option("--rounds", a.rounds, "times that everything is measured; the median counts")
      ->capture_default_str()
      ->transform(number(1, 1000))
      ->excludes(stages);
  app.add_option("--sequences", a.sequences, "also decode this many texts together")
      ->transform(number<int32_t>(1, 1024))
      ->excludes(stages);
  app.add_option("--budget", a.budget, "seconds; contexts and rounds that do not fit are left out, and that is said")
      ->capture_default_str()
      ->transform(number(0.001, 1e9));
  CLI::Option* json = app.add_flag("--json", a.json, "print JSON");
  app.add_flag("--csv", a.csv, "print comma-separated values")->excludes(json)->excludes(stages);
  app.add_option("--plot", a.plot, "also draw the table into this SVG file")->check(not_empty())->excludes(stages);
}

void add_perplexity(CLI::App& root, PerplexityArguments& a) {
  CLI::App& app = *root.add_subcommand("perplexity", "how well a model predicts a text, or how far it is from another");
  add_model(app, a.model);
  app.remove_option(app.get_option("--ctx"));
  app.add_option("-f,--file", a.file, "the text, a file or pipe (without it, or with -: standard input)")
      ->check(not_empty());
  app.add_option("--ctx", a.window, "tokens of a window: what a token is predicted from, at most")
      ->capture_default_str()
      ->transform(number<int64_t>(2));
  app.add_option("--stride", a.stride, "tokens from window to window (default: half a window)")
      ->transform(number<int64_t>(1));
  CLI::Option* save = app.add_option("--save-logits", a.save_logits, "write the logits to this safetensors file");
  save->check(not_empty());
  app.add_option("--kld", a.kld, "compare with logits that were saved: divergence from their model to this one")
      ->check(not_empty())
      ->excludes(save);
  app.add_flag("--json", a.json, "print JSON");
  app.add_flag("-q,--quiet", a.quiet, "no progress");
  app.callback([&a] {
    if (a.stride <= a.window) return;
    throw CLI::ValidationError("--stride", cat(a.stride, " is more than a window, --ctx ", a.window,
                                               "; tokens between the windows would not be predicted"));
  });
}

void add_imatrix(CLI::App& root, ImatrixArguments& a) {
  CLI::App& app =
      *root.add_subcommand("imatrix", "which columns of the weights matter on a text, for convert --imatrix");
  app.footer("Runs on the CPU alone. The file has the GGUF format of llama.cpp's tool of this name.");
  add_model(app, a.model);
  app.remove_option(app.get_option("--ctx"));
  app.add_option("-f,--file", a.file, "the text, a file or pipe (without it, or with -: standard input)")
      ->check(not_empty());
  app.add_option("-o,--out", a.out, "the GGUF file to write")->required()->check(not_empty());
  app.add_option("--ctx", a.window, "tokens of a window; each begins anew")
      ->capture_default_str()
      ->transform(number<int64_t>(1, std::numeric_limits<int32_t>::max()));
  app.add_flag("-q,--quiet", a.quiet, "no progress");
}

void add_verify(CLI::App& root, VerifyArguments& a) {
  CLI::App& app = *root.add_subcommand("verify", "prove on this model and machine that histories have one set of bits");
  add_model(app, a.model);
  app.add_option("--budget", a.budget, "seconds; what does not fit is said")
      ->capture_default_str()
      ->transform(number(0.001, 1e9));
  app.add_option("--tokens", a.tokens,
                 "length of the texts, for digests that two machines can compare; 0: by the budget")
      ->capture_default_str()
      ->transform(number<int64_t>(0));
  app.add_option("--seed", a.seed, "of texts, cuts and faults")->capture_default_str()->transform(number<uint64_t>(0));
  app.add_flag("--json", a.json, "print JSON");
}

void add_snapshot(CLI::App& root, SnapshotArguments& a) {
  using Action = SnapshotArguments::Action;
  CLI::App& app = *root.add_subcommand("snapshot", "a session as a file: save, inspect, restore");
  app.require_subcommand(1);
  const auto command = [&](const char* name, const char* what, Action action) {
    CLI::App* sub = app.add_subcommand(name, what);
    sub->callback([&a, action] { a.action = action; });
    if (action != Action::inspect) {
      add_model(*sub, a.model);
      sub->get_option("MODEL")->required()->description("a GGUF file (any of a split set) or a safetensors folder");
    }
    sub->add_option("FILE", a.file, "the snapshot")->required()->check(not_empty());
    sub->add_flag("--json", a.json, "print JSON");
    return sub;
  };
  CLI::App* save = command("save", "run some tokens and save the session", Action::save);
  CLI::Option* tokens = add_tokens(*save, "--tokens", a.tokens, "token ids, with commas");
  save->add_option("-p,--prompt", a.prompt, "text, as it stands")->excludes(tokens);
  save->callback([&a] {
    a.action = Action::save;
    if (a.tokens.empty() && a.prompt.empty())
      throw CLI::ValidationError("snapshot save", "there is nothing to save; give --tokens or -p");
  });
  command("inspect", "what a snapshot holds; checks every digest", Action::inspect);
  command("restore", "load a snapshot and go on from it", Action::restore)
      ->add_option("-n,--greedy", a.greedy, "draw this many greedy tokens and append them")
      ->transform(number<int64_t>(0));
}

void add_serve(CLI::App& root, ServeArguments& a) {
  CLI::App& app = *root.add_subcommand("serve", "OpenAI's API, a chat page and metrics over HTTP");
  add_model(app, a.model);
  app.add_option("--host", a.host, "address to listen on; others than loopback need an API key")
      ->capture_default_str()
      ->check(not_empty());
  app.add_option("--port", a.port, "0 takes any free one")->capture_default_str()->transform(number<uint16_t>(0));
  app.add_option("--parallel", a.parallel, "replies computed at once; also the most that n may ask for")
      ->capture_default_str()
      ->transform(number<int32_t>(1, 1024));
  app.add_option("--cached", a.cached, "prompts kept for reuse beside them")
      ->capture_default_str()
      ->transform(number<int32_t>(0, 1024));
  app.add_option("--pool", a.pool,
                 "tokens that all sequences hold together, kept ones included (default: a whole context for each of "
                 "--parallel)")
      ->transform(number<int64_t>(1));
  app.add_option("--queue", a.queue, "requests that may wait; further ones are refused (429)")
      ->capture_default_str()
      ->transform(number<int32_t>(1, 1 << 20));
  CLI::Option* key =
      app.add_option("--api-key", a.api_key,
                     "key that requests must carry; others on this machine can see it here, so rather use "
                     "--api-key-file or the environment variable EVROS_API_KEY");
  key->check(not_empty());
  app.add_option("--api-key-file", a.api_key_file, "read the key from the first line of a file or pipe")
      ->check(not_empty())
      ->excludes(key);
  app.add_flag("--insecure", a.insecure, "serve an address that others reach without a key");
  add_list(app, "--cors-origin", a.cors_origins,
           "let pages of this origin (https://chat.example, no path) use the server, * all; may be repeated")
      ->check(not_empty());
  add_list(app, "--alias", a.aliases, "another name of the model; may be repeated")->check(not_empty());
  app.add_option("--max-body-mb", a.max_body_mb, "longest request in MiB")
      ->capture_default_str()
      ->transform(number<uint64_t>(1, 1024));
  app.add_option("--timeout", a.timeout, "seconds that a request may take")
      ->capture_default_str()
      ->transform(number(0.001, 1e9));
  app.add_option("--grace", a.grace, "seconds that running replies get to end after SIGTERM or Ctrl-C")
      ->capture_default_str()
      ->transform(number(0.0, 1e9));
  app.add_flag("-q,--quiet", a.quiet, "no line per request");
}

/// Prints one sentence and where to read on; returns the exit code.
int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* at = &app;
  std::string command = "evros";
  for (; !at->get_subcommands().empty(); command += cat(' ', at->get_name())) at = at->get_subcommands().back();
  std::string sentence = error.what();
  if (at->get_require_subcommand_min() > 0) {
    const std::vector<std::string> unknown = at->remaining();
    sentence = unknown.empty() ? "a command is missing" : cat(quote(unknown[0]), " is not a command");
  }
  constexpr std::string_view kExcludes = " excludes ";
  if (const size_t word = sentence.find(kExcludes); word != std::string::npos)
    sentence.replace(word, kExcludes.size(), " cannot be given together with ");
  std::replace_if(
      sentence.begin(), sentence.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  std::fprintf(stderr, "evros: %s; see `%s --help`\n", sentence.c_str(), command.c_str());
  return 2;
}

}  // namespace

Arguments parse(int argc, char** argv) {
  CLI::App app("Evros runs Qwen4-Exp models: one history, one set of bits.", "evros");
  app.set_version_flag("--version", std::string("evros ") + EVROS_VERSION);
  app.require_subcommand(1);
  app.footer("Errors are one sentence on standard error; exit code 1, or 2 for wrong usage.");
  RunArguments run_arguments;
  InspectArguments inspect_arguments;
  TokenizeArguments tokenize_arguments;
  ConvertArguments convert_arguments;
  SynthArguments synth_arguments;
  TraceArguments trace_arguments;
  BenchArguments bench_arguments;
  PerplexityArguments perplexity_arguments;
  ImatrixArguments imatrix_arguments;
  VerifyArguments verify_arguments;
  SnapshotArguments snapshot_arguments;
  ServeArguments serve_arguments;
  add_run(app, run_arguments);
  add_inspect(app, inspect_arguments);
  add_tokenize(app, tokenize_arguments);
  add_convert(app, convert_arguments);
  add_synth(app, synth_arguments);
  add_trace(app, trace_arguments);
  add_bench(app, bench_arguments);
  add_perplexity(app, perplexity_arguments);
  add_imatrix(app, imatrix_arguments);
  add_verify(app, verify_arguments);
  add_snapshot(app, snapshot_arguments);
  add_serve(app, serve_arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return Exit{usage_error(app, error)};
    std::ostringstream text;  // help or version; printed as everything else is, so that a lost line is noticed
    app.exit(error, text, text);
    std::fputs(text.str().c_str(), stdout);
    return Exit{0};
  }
  if (app.got_subcommand("run")) return run_arguments;
  if (app.got_subcommand("inspect")) return inspect_arguments;
  if (app.got_subcommand("tokenize")) return tokenize_arguments;
  if (app.got_subcommand("convert")) return convert_arguments;
  if (app.got_subcommand("synth")) return synth_arguments;
  if (app.got_subcommand("bench")) return bench_arguments;
  if (app.got_subcommand("perplexity")) return perplexity_arguments;
  if (app.got_subcommand("imatrix")) return imatrix_arguments;
  if (app.got_subcommand("verify")) return verify_arguments;
  if (app.got_subcommand("snapshot")) return snapshot_arguments;
  if (app.got_subcommand("serve")) return serve_arguments;
  return trace_arguments;
}

}  // namespace evros::cli
