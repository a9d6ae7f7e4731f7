#include "server/server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>

#include "base/json_writer.h"
#include "base/str.h"
#include "server/call.h"
#include "server/metrics.h"
#include "server/model_text.h"
#include "server/openai_request.h"
#include "server/page.h"
#include "server/system.h"
#include "server/worker.h"

namespace evros::server {
namespace {

constexpr size_t kMostPreparing = 64;
constexpr auto kTick = std::chrono::milliseconds(250);
constexpr double kFlushSeconds = 5, kHurriedFlushSeconds = 0.5;  // for the last bytes of answers, when all work is done

using Read = Refusal (*)(std::string_view, const ModelText&, Completion&);
using Convert = Refusal (*)(std::string_view, const ModelText&, std::string&);

uint64_t to_ns(double seconds) { return static_cast<uint64_t>(seconds * 1e9); }

class ServiceImpl final : public Service {
 public:
  ServiceImpl(engine::Engine& engine, io::Io& io, ModelText model, ServerFacts facts, ServiceOptions options)
      : io_(io),
        options_(std::move(options)),
        model_(std::move(model)),
        facts_(std::move(facts)),
        access_(options_.access),
        scheduler_(engine, io, model_.tokenizer, options_.scheduler) {}
  ~ServiceImpl() override { join(); }

  Status listen() {
    EVROS_ASSIGN(http_, HttpServer::listen(options_.http, [this](std::shared_ptr<Exchange> exchange) {
                   handle(std::make_shared<Answer>(std::move(exchange), metrics_, options_.log));
                 }));
    return {};
  }

  uint16_t port() const override { return http_->port(); }
  void run() override;
  void drain() override { wind_down(false); }
  void stop() override { wind_down(true); }
  void drain_on_signals() override {
    http_->on_signal([this](int) { wind_down(draining_.load()); });
  }
  engine::SchedulerStats stats() const override { return scheduler_.stats(); }

 private:
  struct Route {
    const char *path, *method;
    bool open;   // needs no key
    bool quiet;  // asked for every second by somebody: no line in the log
    void (ServiceImpl::*run)(const std::shared_ptr<Answer>&);
  };
  static const Route kRoutes[];
  static const Route* find_route(std::string_view path);

  // On the HTTP thread.
  void handle(const std::shared_ptr<Answer>& answer);
  void serve_page(Answer& answer, const PageFile& file);
  void health(const std::shared_ptr<Answer>& answer);
  void metrics(const std::shared_ptr<Answer>& answer);
  void status(const std::shared_ptr<Answer>& answer);
  void models(const std::shared_ptr<Answer>& answer);
  void one_model(const std::shared_ptr<Answer>& answer);
  void chat(const std::shared_ptr<Answer>& answer) { prepare_completion(answer, read_chat); }
  void completions(const std::shared_ptr<Answer>& answer) { prepare_completion(answer, read_completions); }
  void tokenize_text(const std::shared_ptr<Answer>& answer) { prepare_conversion(answer, tokenize); }
  void detokenize_ids(const std::shared_ptr<Answer>& answer) { prepare_conversion(answer, detokenize); }
  void prepare_completion(const std::shared_ptr<Answer>& answer, Read read);
  void prepare_conversion(const std::shared_ptr<Answer>& answer, Convert convert);
  void prepare(const std::shared_ptr<Answer>& answer, std::function<void(Answer&)> work);

  void begin(const std::shared_ptr<Answer>& answer, Completion completion, uint64_t arrived_ns);
  void wind_down(bool at_once);
  void run_engine();
  void run_clock();
  void keep_calls_alive();
  void join();

  io::Io& io_;
  const ServiceOptions options_;
  const ModelText model_;
  const ServerFacts facts_;
  const Access access_;
  Metrics metrics_;
  std::atomic<bool> draining_ = false, hurried_ = false;
  std::unique_ptr<HttpServer> http_;
  engine::Scheduler scheduler_;
  std::unique_ptr<Worker> preparer_;
  std::thread engine_thread_, clock_thread_;

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<std::weak_ptr<Call>> calls_;
  uint64_t drain_until_ns_ = 0;
  bool finished_ = false;
};

const ServiceImpl::Route ServiceImpl::kRoutes[] = {
    {"/health", "GET", true, true, &ServiceImpl::health},
    {"/metrics", "GET", false, true, &ServiceImpl::metrics},
    {"/status", "GET", false, true, &ServiceImpl::status},
    {"/v1/models", "GET", false, false, &ServiceImpl::models},
    {"/v1/models/", "GET", false, false, &ServiceImpl::one_model},  // and what follows
    {"/v1/chat/completions", "POST", false, false, &ServiceImpl::chat},
    {"/v1/completions", "POST", false, false, &ServiceImpl::completions},
    {"/tokenize", "POST", false, false, &ServiceImpl::tokenize_text},
    {"/detokenize", "POST", false, false, &ServiceImpl::detokenize_ids},
};

const ServiceImpl::Route* ServiceImpl::find_route(std::string_view path) {
  for (const Route& route : kRoutes) {
    const std::string_view own = route.path;
    if (own.ends_with('/') ? path.starts_with(own) && path.size() > own.size() : path == own) return &route;
  }
  return nullptr;
}

std::string_view method_as_got(std::string_view method) { return method == "HEAD" ? "GET" : method; }

/// Browsers send other types to foreign servers without asking first; JSON they do not.
Refusal check_content(const HttpRequest& request) {
  if (request.method != "POST") return {};
  const std::string_view type = request.header("content-type");
  std::string media(type.substr(0, type.find(';')));
  while (media.ends_with(' ')) media.pop_back();
  std::transform(media.begin(), media.end(), media.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  const std::string_view coding = request.header("content-encoding");
  if (media == "application/json" && (coding.empty() || coding == "identity")) return {};
  return ApiError{.status = 415,
                  .message = media == "application/json"
                                 ? cat("the header Content-Encoding is ", json_quote(coding), "; wanted is none")
                                 : cat("the header Content-Type is ", json_quote(type), "; wanted is application/json"),
                  .code = "unsupported_media_type"};
}

void ServiceImpl::handle(const std::shared_ptr<Answer>& answer) {
  const HttpRequest& request = answer->request();
  answer->add_headers(access_.cors_headers(request));
  if (const Refusal wrong = access_.check_source(request)) return answer->refuse(*wrong);
  const std::string_view method = method_as_got(request.method);
  const PageFile* file = page_file(request.path);
  const Route* route = find_route(request.path);
  if (file == nullptr && route == nullptr) {
    return answer->refuse(
        {.status = 404,
         .message = cat("there is nothing at ", json_quote(request.path), "; docs/api.md lists what there is"),
         .code = "not_found"});
  }
  const std::string_view wanted = route == nullptr ? "GET" : route->method;
  if (method != wanted) {
    answer->add_headers({{"allow", wanted == "GET" ? "GET, HEAD, OPTIONS" : cat(wanted, ", OPTIONS")}});
    if (method == "OPTIONS") return answer->respond(204, "");  // what a browser asks first
    return answer->refuse({.status = 405,
                           .message = cat("the method is ", json_quote(request.method), "; wanted is ", wanted),
                           .code = "method_not_allowed"});
  }
  if (route == nullptr) return serve_page(*answer, *file);
  if (route->quiet) answer->set_quiet();
  if (!route->open) {
    if (const Refusal wrong = access_.check_key(request)) return answer->refuse(*wrong);
  }
  if (const Refusal wrong = check_content(request)) return answer->refuse(*wrong);
  (this->*route->run)(answer);
}

void ServiceImpl::serve_page(Answer& answer, const PageFile& file) {
  answer.set_quiet();
  const bool known = answer.request().header("if-none-match") == file.etag;
  HttpResponse response{.status = known ? 304 : 200,
                        .content_type = std::string(file.content_type),
                        .headers = {{"etag", std::string(file.etag)},
                                    {"cache-control", "no-cache"},
                                    {"content-security-policy", std::string(kPagePolicy)},
                                    {"x-content-type-options", "nosniff"},
                                    {"referrer-policy", "no-referrer"}},
                        .body = known ? "" : std::string(file.body)};
  answer.respond(std::move(response));
}

void ServiceImpl::health(const std::shared_ptr<Answer>& answer) {
  const engine::SchedulerStats stats = scheduler_.stats();
  const uint64_t now = io_.now_ns();
  const bool stuck = stats.chunk_started_ns != 0 && now > stats.chunk_started_ns + to_ns(options_.chunk_seconds);
  const char* word = draining_ ? "draining" : !stats.healthy ? "failing" : stuck ? "stuck" : "ok";
  JsonWriter json;
  const bool good = std::string_view(word) == "ok";
  answer->respond(good ? 200 : 503, json.begin_object().key("status").value(word).end_object().take());
}

void ServiceImpl::metrics(const std::shared_ptr<Answer>& answer) {
  answer->respond(200, metrics_text(facts_, scheduler_.stats(), http_->stats(), metrics_), "",
                  "text/plain; version=0.0.4; charset=utf-8");
}

void ServiceImpl::status(const std::shared_ptr<Answer>& answer) {
  answer->respond(200, status_json(facts_, scheduler_.stats(), http_->stats(), io_.now_ns()));
}

void write_model(JsonWriter& json, const ServerFacts& facts, const std::string& name) {
  json.begin_object().key("id").value(name).key("object").value("model").key("created").value(facts.created);
  json.key("owned_by").value("evros").key("max_model_len").value(facts.context).end_object();
}

void ServiceImpl::models(const std::shared_ptr<Answer>& answer) {
  JsonWriter json;
  json.begin_object().key("object").value("list").key("data").begin_array();
  for (const std::string& name : model_.names) write_model(json, facts_, name);
  answer->respond(200, json.end_array().end_object().take());
}

void ServiceImpl::one_model(const std::shared_ptr<Answer>& answer) {
  const std::string name = answer->request().path.substr(std::string_view("/v1/models/").size());
  if (!model_.has_name(name)) {
    return answer->refuse(
        {.status = 404,
         .message = cat("the model ", json_quote(name), " is not served; served is ", json_quote(model_.name())),
         .param = "model",
         .code = "model_not_found"});
  }
  JsonWriter json;
  write_model(json, facts_, name);
  answer->respond(200, json.take());
}

/// Runs `work` on the preparer's thread, unless the client has left by then: a long text takes it seconds, and others wait
/// behind it. Memory that runs out there costs this request alone.
void ServiceImpl::prepare(const std::shared_ptr<Answer>& answer, std::function<void(Answer&)> work) {
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  answer->on_gone([gone] { *gone = true; });
  const bool accepted = preparer_->post([answer, gone, work = std::move(work)] {
    if (*gone) return answer->log_gone("the connection ended before the request was read");
    try {
      work(*answer);
    } catch (const std::bad_alloc&) {  // the exchange, let go without an answer, says 500
    }
  });
  if (!accepted)
    answer->refuse(
        from_engine({Code::busy, cat(kMostPreparing, " requests wait to be read, and no more may")}, draining_));
}

void ServiceImpl::prepare_completion(const std::shared_ptr<Answer>& answer, Read read) {
  prepare(answer, [this, answer, read, arrived = io_.now_ns()](Answer&) {
    Completion completion;
    if (const Refusal wrong = read(answer->request().body, model_, completion)) return answer->refuse(*wrong);
    begin(answer, std::move(completion), arrived);
  });
}

void ServiceImpl::prepare_conversion(const std::shared_ptr<Answer>& answer, Convert convert) {
  prepare(answer, [this, convert](Answer& to) {
    std::string body;
    if (const Refusal wrong = convert(to.request().body, model_, body)) return to.refuse(*wrong);
    to.respond(200, std::move(body));
  });
}

void ServiceImpl::begin(const std::shared_ptr<Answer>& answer, Completion completion, uint64_t arrived_ns) {
  const double asked = completion.timeout_seconds;
  const double seconds = asked < 0 ? options_.timeout_seconds : std::min(asked, options_.timeout_seconds);
  const auto call =
      std::make_shared<Call>(CallRoom{scheduler_, io_, metrics_, draining_}, answer, std::move(completion), arrived_ns);
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
  }
  call->submit(arrived_ns + to_ns(seconds));
}

void ServiceImpl::run() {
  preparer_ = std::make_unique<Worker>(kMostPreparing);
  engine_thread_ = std::thread([this] { run_engine(); });
  clock_thread_ = std::thread([this] { run_clock(); });
  http_->run();
  join();
}

void ServiceImpl::run_engine() {
  scheduler_.run();
  http_->shut_down(hurried_ ? kHurriedFlushSeconds : kFlushSeconds);
}

/// No more requests; the engine's thread ends when the running ones have, and takes the HTTP server with it.
void ServiceImpl::wind_down(bool at_once) {
  draining_ = true;
  scheduler_.drain();
  if (at_once) {
    hurried_ = true;
    scheduler_.stop();
    http_->shut_down(kHurriedFlushSeconds);
  }
  const std::lock_guard lock(mutex_);
  if (drain_until_ns_ == 0) drain_until_ns_ = io_.now_ns() + to_ns(options_.grace_seconds);
}

void ServiceImpl::run_clock() {
  std::unique_lock lock(mutex_);
  bool stopped = false;
  while (!changed_.wait_for(lock, kTick, [this] { return finished_; })) {
    const bool late = drain_until_ns_ != 0 && io_.now_ns() >= drain_until_ns_;
    lock.unlock();
    try {
      keep_calls_alive();
    } catch (const std::bad_alloc&) {  // the next tick tries again
    }
    if (late && !std::exchange(stopped, true)) {
      scheduler_.stop();
      http_->shut_down(kFlushSeconds);  // also if the engine does not come back
    }
    lock.lock();
  }
}

void ServiceImpl::keep_calls_alive() {
  std::vector<std::shared_ptr<Call>> alive;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(calls_, [&](const std::weak_ptr<Call>& call) {
      if (auto held = call.lock(); held && !held->over()) return alive.push_back(std::move(held)), false;
      return true;
    });
  }
  const uint64_t now = io_.now_ns();
  for (const auto& call : alive) call->keep_alive(now);
}

void ServiceImpl::join() {
  if (!engine_thread_.joinable()) return;
  scheduler_.stop();
  engine_thread_.join();
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  changed_.notify_all();
  if (clock_thread_.joinable()) clock_thread_.join();  // not when the system refused it
  preparer_.reset();
}

}  // namespace

uint64_t memory_bytes(const ServiceOptions& options, int32_t replies) {
  const uint64_t connection = options.http.header_bytes + options.http.stream_bytes;
  return 2 * options.http.body_bytes * (static_cast<uint64_t>(replies) + 1) +
         connection * static_cast<uint64_t>(options.http.connections);
}

Result<std::unique_ptr<Service>> Service::start(engine::Engine& engine, text::Tokenizer tokenizer,
                                                text::ChatFormat chat, io::Io& io, ServiceOptions options) {
  options.access.address = options.http.address;
  EVROS_TRY(Access::check(options.access));
  EVROS_ASSIGN(const std::string identity, engine.model_identity());
  const engine::EngineInfo& info = engine.info();
  EVROS_ASSIGN(ModelText model, make_model_text(engine, std::move(tokenizer), std::move(chat), options.names));
  ServerFacts facts{.model = model.name(),
                    .identity = identity,
                    .numerics = info.numerics,
                    .kernels = info.kernels,
                    .device = info.device,
                    .threads = info.threads,
                    .context = info.plan.context,
                    .queue = options.scheduler.queue,
                    .started_ns = io.now_ns(),
                    .created = unix_seconds()};
  auto service = std::make_unique<ServiceImpl>(engine, io, std::move(model), std::move(facts), std::move(options));
  EVROS_TRY(service->listen());
  return std::unique_ptr<Service>(std::move(service));
}

}  // namespace evros::server
