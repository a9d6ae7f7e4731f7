#include "cli/common.h"

#include <cstdio>

#include "base/str.h"
#include "cli/progress_bar.h"
#include "io/io.h"
#include "io/process.h"
#include "ops/plan_report.h"
#include "text/utf8.h"

namespace evros::cli {
namespace {

constexpr const char* kBundledModel = "evros-tiny.gguf";
constexpr uint64_t kTextLimit = 64u << 20;

int g_lost_output = 0;

}  // namespace

Result<std::string> model_path(const std::string& given) {
  if (!given.empty()) return given;
  EVROS_ASSIGN(const std::string folder, io::program_folder());
  std::string path = io::join(folder, kBundledModel);
  if (!io::real_io().exists(path)) {
    return Error{Code::not_found,
                 cat("no MODEL was given and the bundled one is not at ", path, "; `make build` makes it")};
  }
  return path;
}

engine::EngineOptions engine_options(const ModelArguments& a) {
  engine::EngineOptions options;
  options.numerics = a.numerics;
  options.kv = a.kv;
  options.kernels = a.kernels;
  options.device = a.device;
  options.notice = say;
  options.threads = a.threads;
  options.context = a.context;
  options.chunk = a.chunk;
  options.table.resident = a.ple == "ram";
  options.table.memory_bytes = a.ple_memory_mb << 20;
  options.memory_bytes = a.memory_mb << 20;
  return options;
}

Result<std::unique_ptr<engine::Engine>> load_engine(const std::string& path, engine::EngineOptions options, bool quiet,
                                                    std::unique_ptr<device::Device> device) {
  ProgressBar bar("loading", quiet);
  options.progress = bar.progress();
  if (!quiet) {
    options.on_plan = [asked = options](const engine::Plan& plan) {
      std::fputs(ops::plan_summary(plan, asked).c_str(), stderr);
    };
  }
  if (device != nullptr) return engine::Engine::load(io::real_io(), std::move(device), path, options);
  return engine::Engine::load(io::real_io(), path, options);
}

int fail(const Error& error) {
  std::fflush(stdout);
  say(error.message);
  return 1;
}

void say(const std::string& sentence) { std::fprintf(stderr, "evros: %s\n", printable(sentence).c_str()); }

void lose_output(int error) { g_lost_output = error; }
int lost_output() { return g_lost_output; }

const std::atomic<bool>& stop_on_signals() {
  static std::atomic<bool> stop{false};
  io::catch_stop(stop);
  return stop;
}

int fail_or_stop(const Error& error, const std::string& left) {
  if (error.code != Code::cancelled) return fail(error);
  fail({error.code, error.message + left});
  return io::signal_exit_code();
}

int misused(std::string_view command, const Error& error) {
  say(cat(error.message, "; see `evros ", command, " --help`"));
  return 2;
}

std::string printable(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  const auto is_harmful = [](uint32_t c) {
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) ||
           c == 0x200E || c == 0x200F || c == 0x061C;
  };
  std::string out;
  while (!text.empty()) {
    const text::Utf8Step step = text::utf8_step(text);
    const std::string_view part = text.substr(0, step.bytes);
    text.remove_prefix(part.size());
    if (step.state == text::Utf8Step::valid && !is_harmful(step.code_point)) {
      out += part;
      continue;
    }
    for (const char c : part) {
      const auto byte = static_cast<unsigned char>(c);
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

Status check_utf8(std::string_view what, std::string_view text) {
  const auto wrong = text::find_invalid_utf8(text);
  if (!wrong) return {};
  return Error{Code::invalid_argument,
               cat(what, " is not UTF-8: the byte at offset ", *wrong, " belongs to no character")};
}

Result<std::string> read_text(bool given, const std::string& text, const std::string& file) {
  const bool standard = file.empty() || file == "-";
  const std::string source = given ? "the text of -p" : standard ? "standard input" : file;
  const auto read = [&]() -> Result<std::string> {
    if (given) return text;
    return standard ? io::read_standard_input(kTextLimit) : io::read_stream(file, kTextLimit);
  };
  EVROS_ASSIGN(std::string content, read());
  EVROS_TRY(check_utf8(source, content));
  return content;
}

std::string counted(uint64_t n, std::string_view what) { return cat(n, ' ', what, n == 1 ? "" : "s"); }

}  // namespace evros::cli
