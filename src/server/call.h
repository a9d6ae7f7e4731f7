// The life of one completion: from prepared requests through the engine to the end of its answer, whatever the protocol.
//
// Several threads meet here: the preparer submits, the engine's thread tells what happens, the HTTP thread says that the client
// left or reads again, and a clock keeps the connection alive while nothing happens. One lock guards the state; the scheduler
// is never called under it, as its own listeners take it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/scheduler.h"
#include "io/io.h"
#include "server/answer.h"
#include "server/completion.h"
#include "server/metrics.h"

namespace evros::server {

/// What calls share; all of it outlives them.
struct CallRoom {
  engine::Scheduler& scheduler;
  io::Io& clock;
  Metrics& metrics;
  const std::atomic<bool>& draining;  // no more requests are taken
};

class Call : public std::enable_shared_from_this<Call> {
 public:
  /// `arrived_ns`: when the request did.
  Call(CallRoom room, std::shared_ptr<Answer> answer, Completion completion, uint64_t arrived_ns);

  /// Hands all prompts to the scheduler; one that is refused ends the call. Once.
  void submit(uint64_t deadline_ns);
  /// Now and then: a streamed answer for which nothing was sent for a while gets a comment, so that nobody between here and the
  /// client, nor the client itself, takes it for dead.
  void keep_alive(uint64_t now_ns);
  bool over() const;

 private:
  class Part;  // the listener of one prompt

  void started(const engine::Started& started);
  void piece(int32_t choice, const engine::Piece& piece);
  void ended(int32_t choice, const engine::ReplyEnd& end);
  void done();
  void fail(const ApiError& error);
  void give_up();
  void gone();

  // With the lock held.
  void emit(std::string bytes);
  void begin_stream();
  std::string summary(std::string_view end) const;
  std::vector<engine::RequestId> close();

  void cancel(const std::vector<engine::RequestId>& requests);

  CallRoom room_;
  std::shared_ptr<Answer> answer_;
  mutable std::mutex mutex_;
  Completion completion_;
  std::vector<engine::RequestId> ids_;  // of prompts under way
  int32_t replies_ = 1;                 // of each prompt
  size_t parts_left_;
  Totals totals_;
  int64_t drawn_ = 0;       // tokens in pieces so far
  std::string finish_;      // of the replies, for the log
  std::string held_;        // events that wait for the stream's beginning
  bool submitted_ = false;  // all prompts are accepted: the stream may begin
  bool began_ = false;      // the stream did
  bool over_ = false;       // answered, or nobody waits
  uint64_t arrived_ns_, started_ns_ = 0, sent_ns_;
};

}  // namespace evros::server
