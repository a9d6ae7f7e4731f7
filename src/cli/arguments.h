// The command line, parsed: one struct per sub-command. Parsing is the only thing that happens here (arguments.cc and
// validators.h, which alone know CLI11): what can be decided from the command line alone is decided there; each command gets its struct and returns the exit code: 0, 1 for an error, 2 for wrong usage.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace evros::cli {

/// How a model is opened and run; shared by every command that runs one.
struct ModelArguments {
  std::string model;  // empty: the bundled model
  std::string numerics = "N1", kv = "f16", kernels, device = "cpu";
  int threads = 0;
  int64_t context = 0;
  int32_t chunk = 128;
  std::string ple = "disk";  // or "ram"
  uint64_t ple_memory_mb = 64;
  uint64_t memory_mb = 0;  // 0: what is measured
};

struct RunArguments {
  ModelArguments model;
  std::string prompt, file, system;
  bool has_prompt = false;
  std::string session;  // file to go on from and to save to
  bool raw = false;     // no chat template
  bool think = false, no_think = false;
  bool quiet = false;  // no statistics
  int64_t max_tokens = -1;
  std::optional<float> temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int32_t> top_k;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  std::map<int32_t, float> logit_bias;
  std::vector<int32_t> stop_ids;
  bool ignore_eos = false, show_special = false;
};

struct InspectArguments {
  ModelArguments model;
  bool json = false, tensors = false;
};

struct TokenizeArguments {
  std::string model;
  std::string text, file;
  bool has_text = false;
  bool plain = false;  // special tokens are text
  bool json = false;
  std::vector<int32_t> decode;
};

struct ConvertArguments {
  std::string from, to, type = "q8_0", table_type, name, imatrix;
  bool no_mtp = false, resume = false, quiet = false;
  int threads = 0;
};

struct SynthArguments {
  std::string shape = "real", to, type = "q8_0";
  bool sparse = false, quiet = false;
  int32_t layers = 8, experts = 64, vocab = 32768;
  uint64_t table_rows = 1'000'000, seed = 1;
  int threads = 0;
};

struct TraceArguments {
  ModelArguments model;
  std::vector<int32_t> tokens;
  std::vector<int64_t> chunks;
  std::string out, prefix = "a";
  int64_t greedy = 0;
};

struct BenchArguments {
  ModelArguments model;
  std::vector<int64_t> contexts;      // empty: 512 and its multiples by 4
  int64_t prompt = 512, decode = 32;  // tokens
  int rounds = 5;
  int32_t sequences = 0;  // decoded together; 0: that part is left out
  double budget = 300;    // seconds
  bool json = false, csv = false, stages = false;
  std::string plot;
};

struct PerplexityArguments {
  ModelArguments model;
  std::string file, save_logits, kld;
  int64_t window = 512, stride = 0;  // 0: half a window
  bool json = false, quiet = false;
};

struct ImatrixArguments {
  ModelArguments model;
  std::string file, out;
  int64_t window = 512;  // tokens
  bool quiet = false;
};

struct VerifyArguments {
  ModelArguments model;
  double budget = 60;  // seconds
  int64_t tokens = 0;  // of the longest text; 0: what the budget allows
  uint64_t seed = 1;
  bool json = false;
};

struct SnapshotArguments {
  enum class Action { save, inspect, restore } action = Action::inspect;
  ModelArguments model;
  std::string file;  // the snapshot
  std::vector<int32_t> tokens;
  std::string prompt;
  int64_t greedy = 0;
  bool json = false;
};

struct ServeArguments {
  ModelArguments model;
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  int32_t parallel = 4, cached = 8, queue = 64;
  int64_t pool = 0;  // tokens; 0: parallel contexts
  std::string api_key, api_key_file;
  bool insecure = false, quiet = false;
  uint64_t max_body_mb = 8;
  double timeout = 600, grace = 30;  // seconds
  std::vector<std::string> aliases, cors_origins;
};

/// Nothing to do: help or version was printed, or the usage was wrong; the exit code says which.
struct Exit {
  int code;
};

using Arguments = std::variant<Exit, RunArguments, InspectArguments, TokenizeArguments, ConvertArguments,
                               SynthArguments, TraceArguments, BenchArguments, PerplexityArguments, ImatrixArguments,
                               VerifyArguments, SnapshotArguments, ServeArguments>;

Arguments parse(int argc, char** argv);

int run(const RunArguments& arguments);
int inspect(const InspectArguments& arguments);
int tokenize(const TokenizeArguments& arguments);
int convert(const ConvertArguments& arguments);
int synth(const SynthArguments& arguments);
int trace(const TraceArguments& arguments);
int bench(const BenchArguments& arguments);
int perplexity(const PerplexityArguments& arguments);
int imatrix(const ImatrixArguments& arguments);
int verify(const VerifyArguments& arguments);
int snapshot(const SnapshotArguments& arguments);
int serve(const ServeArguments& arguments);

}  // namespace evros::cli
