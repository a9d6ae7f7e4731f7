// The store beside the simplest possible model of it: a list of token vectors. Random operations; every view and every
// live sequence must show exactly the model's history, whatever happened since.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "state/store.h"
#include "state/toy_testing.h"

namespace evros::state {
namespace {

using Tokens = std::vector<int32_t>;

struct Held {
  View view;
  Tokens expected;
};

struct Kept {
  CheckpointId id;
  SlotId owner;
  Tokens expected;
};

struct Flight {
  Transaction transaction;
  std::vector<std::pair<SlotId, Tokens>> parts;
};

class Model {
 public:
  Model(uint32_t seed, Limits limits) : random_(seed), device_(device::make_host_device(1)), layout_(toy::layout()) {
    auto made = Store::create(*device_, layout_, limits);
    EXPECT_TRUE(made.ok());
    store_ = std::move(made).value();
  }

  void step() {
    switch (below(20)) {
      case 0:
        open();
        break;
      case 1:
        if (below(4) == 0) close();
        break;
      case 2:
        if (below(4) == 0) reset();
        break;
      case 3:
        fork();
        break;
      case 4:
      case 5:
        take_view();
        break;
      case 6:
      case 7:
        release_view();
        break;
      case 8:
        stale();
        break;
      case 9:
        drop();
        break;
      case 10:
      case 11:
      case 12:
        publish();
        break;
      case 13:
        checkpoint();
        break;
      case 14:
        rewind();
        break;
      case 15:
        take_over();
        break;
      case 16:
        if (below(3) == 0) release();
        break;
      default:
        begin();
        break;
    }
    check_checkpoints();
  }

  void check_all() {
    store_->check_consistency();
    for (const auto& [slot, sequence] : live_) check_one(sequence.first, sequence.second);
    for (const Held& held : views_) ASSERT_TRUE(toy::shows(layout_, held.view, held.expected));
    check_checkpoints();
  }

  void finish() {
    flights_.clear();
    check_all();
    views_.clear();
    while (!live_.empty()) {
      check_checkpoints();
      ASSERT_TRUE(store_->close(live_.begin()->second.first).ok());
      live_.erase(live_.begin());
    }
    store_->check_consistency();
    const Usage usage = store_->usage();
    EXPECT_EQ(usage.slots, 0);
    EXPECT_EQ(usage.banks, 0);
    EXPECT_EQ(usage.pages, 0);
    EXPECT_EQ(usage.records, 1);
    EXPECT_EQ(usage.checkpoints, 0);
    for (const char* name : {"begin", "publish", "fork", "reset", "close", "busy", "out_of_memory", "too long",
                             "checkpoint", "rewind", "assign", "replace", "release"}) {
      EXPECT_GT(count_[name], 0) << name << " never happened: the test lost its reach";
    }
  }

 private:
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }

  SlotId any_live() {
    auto it = live_.begin();
    std::advance(it, static_cast<ptrdiff_t>(below(live_.size())));
    return it->second.first;
  }

  bool in_flight(SlotId id) {
    for (const Flight& flight : flights_) {
      for (const auto& part : flight.parts) {
        if (part.first == id) return true;
      }
    }
    return false;
  }

  void check_one(SlotId id, const Tokens& tokens) {
    const auto view = store_->view(id);
    ASSERT_TRUE(view.ok());
    ASSERT_EQ(view->id(), id);
    ASSERT_TRUE(toy::shows(layout_, *view, tokens));
  }

  void note(const Error& error) {
    const bool expected =
        error.code == Code::busy || error.code == Code::out_of_memory || error.code == Code::invalid_argument;
    EXPECT_TRUE(expected) << error.message;
    ++count_[error.code == Code::invalid_argument ? "too long" : code_name(error.code)];
  }

  void open() {
    const auto id = store_->open();
    if (!id.ok()) return note(id.error());
    ASSERT_FALSE(live_.contains(id->slot));
    live_[id->slot] = {*id, {}};
  }

  void close() {
    if (live_.empty()) return;
    const SlotId id = any_live();
    const Status status = store_->close(id);
    if (!status.ok()) return note(status.error());
    ASSERT_FALSE(in_flight(id));
    live_.erase(id.slot);
    dead_.push_back(id);
    ++count_["close"];
  }

  void reset() {
    if (live_.empty()) return;
    const SlotId id = any_live();
    const Status status = store_->reset(id);
    if (!status.ok()) return note(status.error());
    ASSERT_FALSE(in_flight(id));
    live_[id.slot].second.clear();
    ++count_["reset"];
  }

  void fork() {
    if (live_.empty()) return;
    const SlotId from = any_live();
    const Usage before = store_->usage();
    const auto id = store_->fork(from);
    if (!id.ok()) return note(id.error());
    const Usage after = store_->usage();
    ASSERT_EQ(after.banks, before.banks);  // copies nothing
    ASSERT_EQ(after.pages, before.pages);
    live_[id->slot] = {*id, live_[from.slot].second};
    ++count_["fork"];
  }

  static bool begins(const Tokens& tokens, const Tokens& with) {
    return with.size() <= tokens.size() && std::equal(with.begin(), with.end(), tokens.begin());
  }

  // A checkpoint lives exactly as long as its sequence begins with it.
  void check_checkpoints() {
    std::erase_if(kept_, [&](const Kept& kept) {
      const auto owner = live_.find(kept.owner.slot);
      const bool stays =
          owner != live_.end() && owner->second.first == kept.owner && begins(owner->second.second, kept.expected);
      EXPECT_EQ(store_->frontier(kept.id).ok(), stays);
      return !stays;
    });
    ASSERT_EQ(store_->usage().checkpoints, static_cast<int32_t>(kept_.size()));
  }

  void checkpoint() {
    if (live_.empty()) return;
    const SlotId id = any_live();
    check_checkpoints();
    const auto made = store_->checkpoint(id);
    if (!made.ok()) return note(made.error());
    kept_.push_back({*made, id, live_[id.slot].second});
    ++count_["checkpoint"];
  }

  void release() {
    check_checkpoints();
    if (kept_.empty()) return;
    const size_t i = below(kept_.size());
    ASSERT_TRUE(store_->release(kept_[i].id).ok());
    EXPECT_EQ(store_->release(kept_[i].id).error().code, Code::stale);
    kept_.erase(kept_.begin() + static_cast<ptrdiff_t>(i));
    ++count_["release"];
  }

  // To the checkpoint of any sequence, or to the nearest of its own history.
  void rewind() {
    check_checkpoints();
    if (kept_.empty() || live_.empty()) return;
    const SlotId id = any_live();
    Kept to = kept_[below(kept_.size())];
    if (below(2) == 0) {
      const size_t most = below(live_[id.slot].second.size() + 1);
      size_t best = 0;
      bool any = false;
      for (const Kept& kept : kept_) {
        if (kept.expected.size() > most || !begins(live_[id.slot].second, kept.expected)) continue;
        any = true;
        best = std::max(best, kept.expected.size());
      }
      const auto nearest = store_->nearest_checkpoint(id, static_cast<int64_t>(most));
      ASSERT_EQ(nearest.ok(), any);
      if (!any) return;
      ASSERT_EQ(*store_->frontier(*nearest), static_cast<int64_t>(best));
      to = {*nearest, id,
            Tokens(live_[id.slot].second.begin(), live_[id.slot].second.begin() + static_cast<ptrdiff_t>(best))};
    }
    const Status status = store_->rewind(id, to.id);
    if (!status.ok()) return note(status.error());
    ASSERT_FALSE(in_flight(id));
    live_[id.slot].second = to.expected;
    ++count_["rewind"];
  }

  void take_over() {
    if (live_.empty()) return;
    const SlotId target = any_live(), source = any_live();
    const bool keeps = below(2) == 0;
    const bool outdated = below(8) == 0;
    const uint64_t seen = store_->view(target)->changed() - (outdated ? 1 : 0);
    const Status status = keeps ? store_->assign(target, source) : store_->replace(target, source, seen);
    if (!status.ok() && status.error().code == Code::invalid_argument) {
      ASSERT_TRUE(!keeps && target == source);
      return;
    }
    if (!status.ok()) return note(status.error());
    ASSERT_FALSE(in_flight(target) || (outdated && !keeps));
    live_[target.slot].second = live_[source.slot].second;
    if (!keeps) {
      ASSERT_FALSE(in_flight(source));
      live_[source.slot].second.clear();
    }
    ++count_[keeps ? "assign" : "replace"];
  }

  void take_view() {
    if (live_.empty() || views_.size() >= 12) return;
    const SlotId id = any_live();
    auto view = store_->view(id);
    ASSERT_TRUE(view.ok());
    views_.push_back({std::move(*view), live_[id.slot].second});
  }

  void release_view() {
    if (views_.empty()) return;
    const size_t i = below(views_.size());
    ASSERT_TRUE(toy::shows(layout_, views_[i].view, views_[i].expected));
    std::swap(views_[i], views_.back());
    views_.pop_back();
  }

  void stale() {
    if (dead_.empty()) return;
    const SlotId id = dead_[below(dead_.size())];
    const Tokens one{1};
    const Append append{id, one};
    EXPECT_EQ(store_->view(id).error().code, Code::stale);
    EXPECT_EQ(store_->frontier(id).error().code, Code::stale);
    EXPECT_EQ(store_->begin({&append, 1}).error().code, Code::stale);
    EXPECT_EQ(store_->fork(id).error().code, Code::stale);
    EXPECT_EQ(store_->reset(id).error().code, Code::stale);
    EXPECT_EQ(store_->close(id).error().code, Code::stale);
  }

  void begin() {
    Flight flight;
    for (const auto& [slot, sequence] : live_) {
      if (below(2) == 0 || flight.parts.size() == 3 || (in_flight(sequence.first) && below(20) != 0)) continue;
      Tokens tokens(1 + below(below(3) == 0 ? 20 : 3));
      for (int32_t& token : tokens) token = static_cast<int32_t>(below(1000));
      flight.parts.emplace_back(sequence.first, std::move(tokens));
    }
    if (flight.parts.empty()) return;
    std::vector<Append> appends;
    for (const auto& [id, tokens] : flight.parts) appends.push_back({id, tokens});
    const Usage before = store_->usage();
    auto made = store_->begin(appends);
    if (!made.ok()) {
      const Usage after = store_->usage();
      ASSERT_EQ(before.banks, after.banks);
      ASSERT_EQ(before.pages, after.pages);
      ASSERT_EQ(before.records, after.records);
      return note(made.error());
    }
    flight.transaction = std::move(*made);
    ASSERT_EQ(flight.transaction.images().size(), appends.size());
    for (size_t i = 0; i < appends.size(); ++i) {
      const Image& image = flight.transaction.images()[i];
      ASSERT_EQ(image.frontier, static_cast<int64_t>(live_[image.id.slot].second.size()));
      toy::run_stages(layout_, image, appends[i].tokens, below(2) == 0);
    }
    flights_.push_back(std::move(flight));
    ++count_["begin"];
  }

  void publish() {
    if (flights_.empty()) return;
    const size_t i = below(flights_.size());
    Flight flight = std::move(flights_[i]);
    flights_.erase(flights_.begin() + static_cast<ptrdiff_t>(i));
    bool clean[4] = {};
    for (size_t k = 0; k < flight.parts.size(); ++k) {
      clean[k] = below(4) != 0;
      if (!clean[k]) continue;
      Tokens& history = live_[flight.parts[k].first.slot].second;
      history.insert(history.end(), flight.parts[k].second.begin(), flight.parts[k].second.end());
    }
    store_->publish(std::move(flight.transaction), {clean, flight.parts.size()});
    ++count_["publish"];
  }

  void drop() {
    if (flights_.empty()) return;
    flights_.erase(flights_.begin() + static_cast<ptrdiff_t>(below(flights_.size())));
  }

  std::mt19937 random_;
  std::unique_ptr<device::Device> device_;
  const Layout layout_;
  std::unique_ptr<Store> store_;
  std::map<int32_t, std::pair<SlotId, Tokens>> live_;
  std::vector<SlotId> dead_;
  std::vector<Held> views_;
  std::vector<Flight> flights_;
  std::vector<Kept> kept_;
  std::map<std::string, int> count_;
};

void run(uint32_t seed, Limits limits, int steps) {
  Model model(seed, limits);
  for (int i = 0; i < steps; ++i) {
    model.step();
    if (i % 7 == 0) model.check_all();
    if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " step " << i;
  }
  model.finish();
}

TEST(StoreModel, any_sequence_of_operations_shows_exactly_the_published_histories) {
  run(1, {.slots = 6, .checkpoints = 8, .banks = 40, .pages = 90, .max_tokens = 120, .records = 16}, 20000);
}

TEST(StoreModel, the_same_when_banks_pages_and_records_are_scarce) {
  run(2, {.slots = 4, .checkpoints = 3, .banks = 8, .pages = 24, .max_tokens = 60, .records = 5}, 20000);
}

TEST(StoreModel, the_same_with_other_seeds) {
  for (uint32_t seed = 10; seed < 20; ++seed) {
    run(seed, {.slots = 5, .checkpoints = 4, .banks = 12, .pages = 40, .max_tokens = 40, .records = 8}, 3000);
  }
}

}  // namespace
}  // namespace evros::state
