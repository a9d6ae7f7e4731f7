// evros serve: the API, the page and the metrics of one model over HTTP.
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/str.h"
#include "cli/arguments.h"
#include "cli/common.h"
#include "engine/text_kit.h"
#include "io/io.h"
#include "io/process.h"
#include "server/server.h"

namespace evros::cli {
namespace {

constexpr uint64_t kKeyFileLimit = 64 << 10;

/// "tiny" of "models/tiny.gguf", of "models/tiny/" and of the first file of a split set.
std::string model_name(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  path = path.substr(path.rfind('/') + 1);
  constexpr std::string_view kGguf = ".gguf", kOf = "-of-";
  if (!path.ends_with(kGguf)) return path;
  path.resize(path.size() - kGguf.size());
  const size_t of = path.rfind(kOf);  // NAME-00001-of-00005
  const size_t dash = of == std::string::npos || of == 0 ? of : path.rfind('-', of - 1);
  const bool split = dash != std::string::npos && dash > 0 && path.size() == of + kOf.size() + 5 && of == dash + 6;
  return split ? path.substr(0, dash) : path;
}

Result<std::string> api_key(const ServeArguments& a) {
  if (!a.api_key.empty()) return a.api_key;
  if (a.api_key_file.empty()) {
    const char* given = std::getenv("EVROS_API_KEY");
    return std::string(given == nullptr ? "" : given);
  }
  EVROS_ASSIGN(std::string key, io::read_stream(a.api_key_file, kKeyFileLimit));
  key.resize(std::min(key.find_first_of("\r\n"), key.size()));
  if (key.empty()) return Error{Code::bad_file, cat(a.api_key_file, ": the first line, the API key, is empty")};
  return key;
}

server::ServiceOptions service_options(const ServeArguments& a, const std::string& path, std::string key) {
  server::ServiceOptions options;
  options.http.address = a.host;
  options.http.port = a.port;
  options.http.body_bytes = a.max_body_mb << 20;
  options.scheduler.queue = a.queue;
  options.access.address = a.host;
  options.access.api_key = std::move(key);
  options.access.insecure = a.insecure;
  options.access.cors_origins = a.cors_origins;
  options.names = {model_name(path)};
  options.names.insert(options.names.end(), a.aliases.begin(), a.aliases.end());
  options.timeout_seconds = a.timeout;
  options.grace_seconds = a.grace;
  if (!a.quiet) {
    options.log = [](std::string_view line) {
      std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
    };
  }
  return options;
}

Status serve_model(const ServeArguments& a, const std::string& path, const server::ServiceOptions& options) {
  engine::EngineOptions engine_options = cli::engine_options(a.model);
  engine_options.sessions = a.parallel + a.cached;
  engine_options.batch = a.parallel;
  engine_options.pool_tokens = a.pool;
  engine_options.pool_contexts = a.parallel;
  engine_options.caller_bytes = server::memory_bytes(options, a.parallel);
  engine_options.chunk = std::max(engine_options.chunk, a.parallel);
  EVROS_ASSIGN(const auto engine, load_engine(path, engine_options, a.quiet));
  EVROS_ASSIGN(auto tokenizer, engine::load_tokenizer(engine->file()));
  EVROS_ASSIGN(auto chat, text::ChatFormat::create(engine::tokenizer_spec(engine->file()).chat_template));
  EVROS_ASSIGN(const auto service,
               server::Service::start(*engine, std::move(tokenizer), std::move(chat), io::real_io(), options));
  service->drain_on_signals();
  std::signal(SIGPIPE, SIG_IGN);  // whoever read the log has ended; the replies go on
  const bool v6 = a.host.find(':') != std::string::npos;
  std::printf("evros serve: http://%s%s%s:%d (%s, %d replies at once, context %lld)\n", v6 ? "[" : "", a.host.c_str(),
              v6 ? "]" : "", service->port(), options.names[0].c_str(), a.parallel,
              static_cast<long long>(engine->info().plan.context));
  std::fflush(stdout);
  service->run();
  return {};
}

}  // namespace

int serve(const ServeArguments& a) {
  const auto path = model_path(a.model.model);
  if (!path.ok()) return fail(path.error());
  const auto key = api_key(a);
  if (!key.ok()) return fail(key.error());
  const server::ServiceOptions options = service_options(a, *path, *key);
  server::AccessOptions told = options.access;  // by the command line alone
  if (a.api_key.empty() && !told.api_key.empty()) told.api_key = "file";
  if (const Status access = server::Access::check(told); !access.ok()) return misused("serve", access.error());
  if (const Status access = server::Access::check(options.access); !access.ok()) return fail(access.error());
  const Status served = serve_model(a, *path, options);
  return served.ok() ? 0 : fail(served.error());
}

}  // namespace evros::cli
