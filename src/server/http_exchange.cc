#include "server/http_exchange.h"

#include <utility>

#include "base/check.h"

namespace evros::server {

void HttpLoop::post(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (post_) post_(std::move(work));
}

void HttpLoop::close() {
  Post dropped;
  const std::lock_guard lock(mutex_);
  std::swap(dropped, post_);
}

void HttpTalk::respond(HttpResponse response) {
  std::unique_lock lock(mutex_);
  CHECK(step_ == Step::fresh);
  step_ = Step::ended;
  news_.head = std::move(response);
  news_.ended = true;
  wake_up(std::move(lock));
}

void HttpTalk::begin_stream(HttpResponse head) {
  std::unique_lock lock(mutex_);
  CHECK(step_ == Step::fresh);
  step_ = Step::streaming;
  news_.pieces = std::exchange(head.body, {});
  waiting_ += news_.pieces.size();
  news_.head = std::move(head);
  news_.streamed = true;
  wake_up(std::move(lock));
}

void HttpTalk::send(std::string bytes) {
  std::unique_lock lock(mutex_);
  CHECK(step_ == Step::streaming);
  if (over_ || bytes.empty()) return;
  waiting_ += bytes.size();
  if (news_.pieces.empty())
    news_.pieces = std::move(bytes);
  else
    news_.pieces += bytes;
  wake_up(std::move(lock));
}

void HttpTalk::end_stream() {
  std::unique_lock lock(mutex_);
  CHECK(step_ == Step::streaming);
  step_ = Step::ended;
  news_.ended = true;
  wake_up(std::move(lock));
}

void HttpTalk::let_go() {
  std::unique_lock lock(mutex_);
  if (step_ == Step::ended) return;
  step_ = Step::ended;
  news_.let_go = true;
  wake_up(std::move(lock));
}

void HttpTalk::on_gone(std::function<void()> gone) {
  std::unique_lock lock(mutex_);
  gone_ = std::move(gone);
  if (over_) wake_up(std::move(lock));
}

void HttpTalk::on_drained(std::function<void()> drained) {
  const std::lock_guard lock(mutex_);
  drained_ = std::move(drained);
}

void HttpTalk::wake_up(std::unique_lock<std::mutex> lock) {
  if (std::exchange(posted_, true)) return;
  lock.unlock();
  loop_->post([self = shared_from_this()] { self->update(); });
}

void HttpTalk::update() {
  std::unique_lock lock(mutex_);
  posted_ = false;
  if (!over_) {
    lock.unlock();
    // finish() during the call drops wake_: run a copy.
    if (const auto wake = wake_) wake();
    return;
  }
  lock.unlock();
  finish(is_gone_);
}

HttpTalk::News HttpTalk::take(bool with_pieces) {
  News news;
  const std::lock_guard lock(mutex_);
  news.head = std::exchange(news_.head, std::nullopt);
  news.streamed = news_.streamed;
  news.let_go = news_.let_go;
  if (with_pieces) {
    news.pieces = std::exchange(news_.pieces, {});
    news.ended = news_.ended;
  }
  return news;
}

void HttpTalk::wrote(size_t bytes) {
  if (bytes == 0) return;
  const size_t before = waiting_.fetch_sub(bytes);
  if (before <= room_ || before - bytes > room_) return;
  std::function<void()> drained;
  {
    const std::lock_guard lock(mutex_);
    drained = drained_;
  }
  if (drained) drained();
}

void HttpTalk::finish(bool gone) {
  std::function<void()> on_gone, on_drained;
  News unwanted;
  {
    const std::lock_guard lock(mutex_);
    is_gone_ = gone;
    over_ = true;
    std::swap(on_gone, gone_);
    std::swap(on_drained, drained_);
    std::swap(unwanted, news_);
  }
  wake_ = nullptr;
  if (gone && on_gone) on_gone();
}

namespace {

class HandlersEnd final : public Exchange {
 public:
  explicit HandlersEnd(std::shared_ptr<HttpTalk> talk) : talk_(std::move(talk)) {}
  ~HandlersEnd() override { talk_->let_go(); }
  HandlersEnd(const HandlersEnd&) = delete;
  HandlersEnd& operator=(const HandlersEnd&) = delete;

  const HttpRequest& request() const override { return talk_->request(); }
  void respond(HttpResponse response) override { talk_->respond(std::move(response)); }
  void begin_stream(HttpResponse head) override { talk_->begin_stream(std::move(head)); }
  void send(std::string bytes) override { talk_->send(std::move(bytes)); }
  void end_stream() override { talk_->end_stream(); }
  bool has_room() const override { return talk_->has_room(); }
  void on_gone(std::function<void()> gone) override { talk_->on_gone(std::move(gone)); }
  void on_drained(std::function<void()> drained) override { talk_->on_drained(std::move(drained)); }

 private:
  std::shared_ptr<HttpTalk> talk_;
};

}  // namespace

std::shared_ptr<Exchange> make_exchange(std::shared_ptr<HttpTalk> talk) {
  return std::make_shared<HandlersEnd>(std::move(talk));
}

}  // namespace evros::server
