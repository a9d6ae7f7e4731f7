#include "server/call.h"

#include <algorithm>
#include <cstdio>
#include <new>

#include "base/str.h"

namespace evros::server {
namespace {

constexpr uint64_t kSilenceNs = 15'000'000'000;
constexpr size_t kMostHeldBytes = size_t{64} << 20;

std::string decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

}  // namespace

class Call::Part : public engine::Listener {
 public:
  Part(std::shared_ptr<Call> call, int32_t first_choice) : call_(std::move(call)), first_(first_choice) {}
  void started(const engine::Started& started) override {
    within_memory([&] { call_->started(started); });
  }
  void piece(int32_t choice, const engine::Piece& piece) override {
    within_memory([&] { call_->piece(first_ + choice, piece); });
  }
  void ended(const engine::ReplyEnd& end) override {
    within_memory([&] { call_->ended(first_ + end.choice, end); });
  }
  void done() override {
    within_memory([&] { call_->done(); });
  }
  void failed(const Error& error) override {
    within_memory([&] { call_->fail(from_engine(error, call_->room_.draining)); });
  }
  bool has_room() const override { return call_->answer_->has_room(); }

 private:
  /// Memory that runs out while an answer is written costs this call, not the engine.
  template <typename Act>
  void within_memory(const Act& act) {
    try {
      act();
    } catch (const std::bad_alloc&) {
      call_->give_up();
    }
  }

  std::shared_ptr<Call> call_;
  int32_t first_;
};

Call::Call(CallRoom room, std::shared_ptr<Answer> answer, Completion completion, uint64_t arrived_ns)
    : room_(room),
      answer_(std::move(answer)),
      completion_(std::move(completion)),
      replies_(completion_.requests.front().n),
      parts_left_(completion_.requests.size()),
      arrived_ns_(arrived_ns),
      sent_ns_(arrived_ns) {}

void Call::submit(uint64_t deadline_ns) {
  answer_->on_drained([scheduler = &room_.scheduler] { scheduler->wake(); });
  answer_->on_gone([weak = weak_from_this()] {
    if (const auto call = weak.lock()) call->gone();
  });
  int32_t choice = 0;
  for (engine::Request& request : completion_.requests) {
    if (over()) break;
    request.deadline_ns = deadline_ns;
    const auto id = room_.scheduler.submit(std::move(request), std::make_shared<Part>(shared_from_this(), choice));
    if (!id.ok()) return fail(from_engine(id.error(), room_.draining));
    choice += replies_;
    const std::lock_guard lock(mutex_);
    ids_.push_back(*id);
  }
  std::vector<engine::RequestId> late;  // accepted after the call was over
  {
    const std::lock_guard lock(mutex_);
    submitted_ = true;
    if (over_) {
      late = close();
    } else if (started_ns_ != 0) {
      begin_stream();
    }
  }
  cancel(late);
}

void Call::started(const engine::Started& started) {
  const std::lock_guard lock(mutex_);
  if (over_) return;
  totals_.prompt_tokens += started.prompt_tokens;
  totals_.reused_tokens += started.reused_tokens;
  if (started.diverged_at >= 0) {
    room_.metrics.diverged();
    if (totals_.diverged_at < 0) totals_.diverged_at = started.diverged_at;
  }
  if (started_ns_ != 0) return;
  started_ns_ = room_.clock.now_ns();
  emit(completion_.format->started());
  if (submitted_) begin_stream();
}

void Call::piece(int32_t choice, const engine::Piece& piece) {
  bool too_large = false;
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    if (totals_.first_token_ns == 0) {
      totals_.first_token_ns = room_.clock.now_ns() - arrived_ns_;
      room_.metrics.first_token(static_cast<double>(totals_.first_token_ns) * 1e-9);
    }
    drawn_ += static_cast<int64_t>(piece.tokens.size());
    emit(completion_.format->piece(choice, piece));
    too_large = completion_.format->held_bytes() > kMostHeldBytes;
  }
  if (!too_large) return;
  fail({.status = 400,
        .message = cat("the answer has grown beyond ", kMostHeldBytes >> 20,
                       " MiB; ask for fewer choices or log probabilities, or stream it"),
        .code = "answer_too_large"});
}

void Call::ended(int32_t choice, const engine::ReplyEnd& end) {
  const std::lock_guard lock(mutex_);
  if (over_) return;
  totals_.reply_tokens += end.tokens;
  totals_.thinking_tokens += end.thinking_tokens;
  finish_ += cat(finish_.empty() ? "" : ",", engine::finish_name(end.finish));
  emit(completion_.format->ended(choice, end.finish));
}

void Call::done() {
  const std::lock_guard lock(mutex_);
  if (over_ || --parts_left_ > 0) return;
  over_ = true;
  totals_.reply_ns = room_.clock.now_ns() - started_ns_;
  if (totals_.reply_tokens > 0) room_.metrics.reply(totals_.tokens_per_second());
  std::string last = completion_.format->done(totals_);
  if (!completion_.format->streamed()) return answer_->respond(200, std::move(last), summary(finish_));
  begin_stream();
  answer_->send(std::move(last));
  answer_->end_stream(summary(finish_));
}

void Call::fail(const ApiError& error) {
  std::vector<engine::RequestId> others;
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    others = close();
    const std::string note = summary(cat("failed: ", error.message));
    if (began_) {
      answer_->send(completion_.format->broken(error));
      answer_->end_stream(note);
    } else {
      answer_->refuse(error, note);
    }
  }
  cancel(others);
}

/// There is no memory to tell anything: the exchange, let go with the call, tells that something failed.
void Call::give_up() {
  std::vector<engine::RequestId> all;
  {
    const std::lock_guard lock(mutex_);
    all = close();
  }
  cancel(all);
}

void Call::gone() {
  std::vector<engine::RequestId> all;
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    all = close();
    answer_->log_gone(summary("the client left"));
  }
  cancel(all);
}

void Call::keep_alive(uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (over_ || !submitted_ || !completion_.format->streamed() || now_ns < sent_ns_ + kSilenceNs) return;
  begin_stream();
  if (answer_->has_room()) answer_->send(": waiting\n\n");
  sent_ns_ = now_ns;
}

bool Call::over() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

void Call::emit(std::string bytes) {
  if (bytes.empty()) return;
  if (!began_) {
    held_ += bytes;
    return;
  }
  answer_->send(std::move(bytes));
  sent_ns_ = room_.clock.now_ns();
}

void Call::begin_stream() {
  if (began_ || !completion_.format->streamed()) return;
  began_ = true;
  answer_->begin_stream("text/event-stream");
  emit(std::exchange(held_, {}));
}

std::vector<engine::RequestId> Call::close() {
  over_ = true;
  return std::exchange(ids_, {});
}

void Call::cancel(const std::vector<engine::RequestId>& requests) {
  for (const engine::RequestId id : requests) room_.scheduler.cancel(id);
}

std::string Call::summary(std::string_view end) const {
  const Totals& t = totals_;
  std::string out = completion_.id;
  if (started_ns_ != 0) {
    out += cat(" prompt ", t.prompt_tokens, " (", t.reused_tokens, " cached, ", t.prompt_tokens - t.reused_tokens,
               " new", t.diverged_at < 0 ? "" : cat(", diverged at ", t.diverged_at), "), drawn ",
               std::max(t.reply_tokens, drawn_));
  }
  if (t.first_token_ns != 0)
    out += cat(", first token after ", decimal(static_cast<double>(t.first_token_ns) * 1e-6), " ms");
  if (t.reply_ns != 0) out += cat(", ", decimal(t.tokens_per_second()), " tokens/s");
  return cat(out, "; ", end);
}

}  // namespace evros::server
