// The server: a loaded model behind HTTP. docs/api.md says what it answers.
//
//   EVROS_ASSIGN(auto service, Service::start(*engine, tokenizer, chat, io::real_io(), options));
//   service->drain_on_signals();
//   service->run();
//
// Four threads: run()'s own does HTTP and nothing that takes long; the engine's; one that prepares requests (parsing,
// rendering, encoding); and a clock for streams that are silent and for the end of a drain.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/scheduler.h"
#include "io/io.h"
#include "server/access.h"
#include "server/answer.h"
#include "server/http.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace evros::server {

struct ServiceOptions {
  HttpOptions http;
  engine::SchedulerOptions scheduler;
  AccessOptions access;            // its address is that of `http`
  std::vector<std::string> names;  // of the model, at least one; the first is what answers carry
  double timeout_seconds = 600;    // for a whole request; one may ask for less
  double grace_seconds = 30;       // for running replies, once no more are taken
  double chunk_seconds = 60;       // a chunk that runs longer makes /health say so
  Log log;                         // a line per request; may be empty
};

/// Host memory that a service takes beside its engine while `replies` are computed: their requests, one more that is read
/// (each as bytes and as JSON), and every connection with a full stream. Requests that wait come on top, with as many bytes
/// as their clients sent.
uint64_t memory_bytes(const ServiceOptions& options, int32_t replies);

class Service {
 public:
  /// Listens; answers come once run() runs. The engine, which nobody else may call from now on, and `io` outlive it.
  static Result<std::unique_ptr<Service>> start(engine::Engine& engine, text::Tokenizer tokenizer,
                                                text::ChatFormat chat, io::Io& io, ServiceOptions options);
  virtual ~Service() = default;

  virtual uint16_t port() const = 0;
  /// Serves until drain() or stop() has done its work; once.
  virtual void run() = 0;
  /// From any thread: takes no more requests (503), lets running replies end for `grace_seconds`, then ends them with an
  /// error. Every socket gets an end.
  virtual void drain() = 0;
  /// The same without the grace.
  virtual void stop() = 0;
  /// SIGTERM and SIGINT: the first drains, the second stops.
  virtual void drain_on_signals() = 0;
  virtual engine::SchedulerStats stats() const = 0;
};

}  // namespace evros::server
