#include "state/store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/str.h"
#include "state/toy_testing.h"

namespace evros::state {
namespace {

using Tokens = std::vector<int32_t>;

Tokens some_tokens(size_t count, int32_t first = 0) {
  Tokens out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

/// A device of which the Nth call of a kind fails: what the store does with it must not show.
class FailingDevice final : public device::Device {
 public:
  std::string_view name() const override { return host_->name(); }
  bool host_addressable() const override { return true; }
  Result<device::Buffer> allocate(uint64_t bytes, std::string_view what) override {
    if (allocations_until_failure-- == 0) return Error{Code::out_of_memory, cat("no ", bytes, " bytes for ", what)};
    auto made = host_->allocate(bytes, what);
    if (!made.ok()) return made;
    ++held;
    kept_.push_back(std::move(*made));
    return device::Buffer(this, kept_.back().data(), bytes);
  }
  void free(std::byte*, uint64_t) noexcept override { --held; }
  Status upload(std::byte* to, std::span<const std::byte> from) override {
    if (uploads_fail) return Error{Code::device, "upload refused"};
    return host_->upload(to, from);
  }
  Status download(std::span<std::byte> to, const std::byte* from) override { return host_->download(to, from); }
  Status copy(std::byte* to, const std::byte* from, uint64_t bytes) override {
    if (copies_until_failure-- == 0) return Error{Code::device, "copy refused"};
    return host_->copy(to, from, bytes);
  }
  Status fill(std::byte* to, uint8_t value, uint64_t bytes) override { return host_->fill(to, value, bytes); }
  Status launch(const device::StageInfo& stage, const std::function<void(device::Queue&)>& body) override {
    return host_->launch(stage, body);
  }
  Status finish() override { return host_->finish(); }

  int allocations_until_failure = -1, copies_until_failure = -1, held = 0;
  bool uploads_fail = false;

 private:
  std::unique_ptr<device::Device> host_ = device::make_host_device(1);
  std::vector<device::Buffer> kept_;
};

class StoreTest : public testing::Test {
 protected:
  void make(Limits limits) {
    auto made = Store::create(device_, layout_, limits);
    ASSERT_TRUE(made.ok()) << made.error().message;
    store_ = std::move(*made);
  }
  SlotId open() {
    auto id = store_->open();
    EXPECT_TRUE(id.ok());
    return *id;
  }
  Result<Transaction> begin(SlotId id, const Tokens& tokens) {
    const Append append{id, tokens};
    return store_->begin({&append, 1});
  }
  /// begin, stages, publish.
  void append(SlotId id, const Tokens& tokens) {
    auto transaction = begin(id, tokens);
    ASSERT_TRUE(transaction.ok()) << transaction.error().message;
    run(*transaction, {tokens});
    const bool clean = true;
    store_->publish(std::move(*transaction), {&clean, 1});
  }
  void run(const Transaction& transaction, const std::vector<Tokens>& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) toy::run_stages(layout_, transaction.images()[i], tokens[i], true);
  }
  bool shows(SlotId id, const Tokens& tokens) {
    const auto view = store_->view(id);
    return view.ok() && toy::shows(layout_, *view, tokens);
  }
  /// The operation must fail with `code` and leave the store as it was.
  template <typename Operation>
  void expect_refused(Code code, Operation operation, const std::string& in_message) {
    const Usage before = store_->usage();
    const auto result = operation();
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(code_name(result.error().code), std::string(code_name(code)));
    EXPECT_NE(result.error().message.find(in_message), std::string::npos) << result.error().message;
    const Usage after = store_->usage();
    EXPECT_EQ(before.slots, after.slots);
    EXPECT_EQ(before.banks, after.banks);
    EXPECT_EQ(before.pages, after.pages);
    EXPECT_EQ(before.records, after.records);
    EXPECT_EQ(before.checkpoints, after.checkpoints);
    store_->check_consistency();
  }

  FailingDevice device_;
  const Layout layout_ = toy::layout();
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTest, an_opened_sequence_shows_the_origin_and_its_slot_gets_new_generations) {
  make({.slots = 1, .banks = 3, .pages = 4, .max_tokens = 32, .records = 4});
  const SlotId first = open();
  EXPECT_TRUE(shows(first, {}));
  EXPECT_EQ(store_->view(first)->pages(), nullptr);
  ASSERT_TRUE(store_->close(first).ok());
  const SlotId second = open();
  EXPECT_EQ(second.slot, first.slot);
  EXPECT_NE(second.generation, first.generation);
  EXPECT_EQ(store_->view(first).error().code, Code::stale);
}

TEST_F(StoreTest, nothing_is_visible_before_publish_and_everything_after) {
  make({.slots = 1, .banks = 3, .pages = 4, .max_tokens = 32, .records = 4});
  const SlotId id = open();
  const Tokens tokens = some_tokens(11);
  auto transaction = begin(id, tokens);
  ASSERT_TRUE(transaction.ok());
  run(*transaction, {tokens});
  EXPECT_TRUE(shows(id, {}));
  const uint64_t before = store_->view(id)->sequence();
  const bool clean = true;
  store_->publish(std::move(*transaction), {&clean, 1});
  EXPECT_TRUE(shows(id, tokens));
  EXPECT_EQ(store_->view(id)->sequence(), before + 1);
  EXPECT_EQ(*store_->frontier(id), 11);
}

TEST_F(StoreTest, dropping_and_retrying_gives_the_same_image_as_never_failing) {
  make({.slots = 1, .banks = 3, .pages = 4, .max_tokens = 32, .records = 4});
  const SlotId id = open();
  append(id, some_tokens(5));
  for (int attempt = 0; attempt < 20; ++attempt) {
    auto transaction = begin(id, some_tokens(9, 100 + attempt));
    ASSERT_TRUE(transaction.ok());
    run(*transaction, {some_tokens(9, 100 + attempt)});
    EXPECT_TRUE(shows(id, some_tokens(5)));
  }
  EXPECT_TRUE(shows(id, some_tokens(5)));
  append(id, some_tokens(9, 5));
  EXPECT_TRUE(shows(id, some_tokens(14)));
  store_->check_consistency();
}

TEST_F(StoreTest, clean_rows_publish_and_the_others_are_dropped) {
  make({.slots = 3, .banks = 7, .pages = 12, .max_tokens = 32, .records = 4});
  const SlotId ids[3] = {open(), open(), open()};
  for (const SlotId id : ids) append(id, some_tokens(6, 10 * id.slot));
  const Tokens more[3] = {some_tokens(4, 100), some_tokens(7, 200), some_tokens(1, 300)};
  const Append appends[3] = {{ids[0], more[0]}, {ids[1], more[1]}, {ids[2], more[2]}};
  auto transaction = store_->begin(appends);
  ASSERT_TRUE(transaction.ok());
  run(*transaction, {more[0], more[1], more[2]});
  const bool clean[3] = {true, false, true};
  store_->publish(std::move(*transaction), clean);
  for (int i = 0; i < 3; ++i) {
    Tokens expected = some_tokens(6, 10 * i);
    if (clean[i]) expected.insert(expected.end(), more[i].begin(), more[i].end());
    EXPECT_TRUE(shows(ids[i], expected)) << i;
  }
  EXPECT_EQ(store_->usage().banks, 3);
  append(ids[1], some_tokens(2, 400));  // the dropped row's slot is free again
  store_->check_consistency();
}

TEST_F(StoreTest, publishing_no_clean_row_changes_nothing) {
  make({.slots = 1, .banks = 3, .pages = 4, .max_tokens = 32, .records = 4});
  const SlotId id = open();
  append(id, some_tokens(3));
  const uint64_t before = store_->view(id)->sequence();
  auto transaction = begin(id, some_tokens(8));
  ASSERT_TRUE(transaction.ok());
  const bool clean = false;
  store_->publish(std::move(*transaction), {&clean, 1});
  EXPECT_EQ(store_->view(id)->sequence(), before);
  EXPECT_TRUE(shows(id, some_tokens(3)));
  EXPECT_EQ(store_->usage().pages, 1);
}

TEST_F(StoreTest, two_batches_on_disjoint_slots_are_in_flight_together_and_publish_in_any_order) {
  make({.slots = 2, .banks = 5, .pages = 12, .max_tokens = 32, .records = 4});
  const SlotId a = open(), b = open();
  auto first = begin(a, some_tokens(9));
  auto second = begin(b, some_tokens(10, 50));
  ASSERT_TRUE(first.ok() && second.ok());
  run(*second, {some_tokens(10, 50)});
  run(*first, {some_tokens(9)});
  const bool clean = true;
  store_->publish(std::move(*second), {&clean, 1});
  EXPECT_TRUE(shows(a, {}));
  EXPECT_TRUE(shows(b, some_tokens(10, 50)));
  store_->publish(std::move(*first), {&clean, 1});
  EXPECT_TRUE(shows(a, some_tokens(9)));
  EXPECT_TRUE(shows(b, some_tokens(10, 50)));
  store_->check_consistency();
}

TEST_F(StoreTest, forks_go_their_own_ways_whoever_writes_first) {
  for (const bool original_first : {true, false}) {
    for (const size_t length : {size_t{3}, size_t{8}, size_t{13}}) {
      make({.slots = 2, .banks = 6, .pages = 12, .max_tokens = 40, .records = 4});
      const SlotId a = open();
      append(a, some_tokens(length));
      const auto b = store_->fork(a);
      ASSERT_TRUE(b.ok());
      EXPECT_TRUE(shows(*b, some_tokens(length)));
      Tokens of_a = some_tokens(length), of_b = of_a;
      for (int step = 0; step < 4; ++step) {
        const bool a_now = (step % 2 == 0) == original_first;
        const Tokens more = some_tokens(3, 1000 * (step + 1));
        append(a_now ? a : *b, more);
        Tokens& grown = a_now ? of_a : of_b;
        grown.insert(grown.end(), more.begin(), more.end());
        EXPECT_TRUE(shows(a, of_a));
        EXPECT_TRUE(shows(*b, of_b));
        store_->check_consistency();
      }
      store_.reset();
    }
  }
}

TEST_F(StoreTest, a_fork_taken_while_the_original_is_in_flight_is_the_public_image) {
  make({.slots = 2, .banks = 6, .pages = 12, .max_tokens = 40, .records = 6});
  const SlotId a = open();
  append(a, some_tokens(5));
  auto transaction = begin(a, some_tokens(6, 5));  // writes behind row 5 of the page that the fork will share
  ASSERT_TRUE(transaction.ok());
  const auto b = store_->fork(a);
  ASSERT_TRUE(b.ok());
  append(*b, some_tokens(2, 70));
  run(*transaction, {some_tokens(6, 5)});
  const bool clean = true;
  store_->publish(std::move(*transaction), {&clean, 1});
  EXPECT_TRUE(shows(a, some_tokens(11)));
  Tokens expected = some_tokens(5);
  expected.insert(expected.end(), {70, 71});
  EXPECT_TRUE(shows(*b, expected));
  store_->check_consistency();
}

TEST_F(StoreTest, a_view_outlives_reset_and_regrowth_of_its_sequence) {
  make({.slots = 1, .banks = 6, .pages = 12, .max_tokens = 40, .records = 6});
  const SlotId id = open();
  append(id, some_tokens(13));
  const auto held = store_->view(id);
  ASSERT_TRUE(held.ok());
  ASSERT_TRUE(store_->reset(id).ok());
  append(id, some_tokens(20, 500));
  EXPECT_TRUE(toy::shows(layout_, *held, some_tokens(13)));
  EXPECT_TRUE(shows(id, some_tokens(20, 500)));
}

TEST_F(StoreTest, a_view_outlives_a_thousand_publications_and_costs_one_record) {
  make({.slots = 2, .banks = 6, .pages = 260, .max_tokens = 1020, .records = 3});
  const SlotId id = open(), other = open();
  append(id, some_tokens(5));
  const auto held = store_->view(id);
  ASSERT_TRUE(held.ok());
  for (int32_t i = 0; i < 1000; ++i) append(i % 2 == 0 ? id : other, {i});
  EXPECT_TRUE(toy::shows(layout_, *held, some_tokens(5)));
  EXPECT_EQ(store_->usage().records, 2);
  ASSERT_TRUE(store_->close(id).ok());
  EXPECT_TRUE(toy::shows(layout_, *held, some_tokens(5)));
  EXPECT_EQ(held->id(), id);
}

TEST_F(StoreTest, tokens_are_read_from_any_place) {
  make({.slots = 1, .banks = 3, .pages = 8, .max_tokens = 64, .records = 4});
  const SlotId id = open();
  append(id, some_tokens(30));
  const auto view = store_->view(id);
  for (int64_t first = 0; first <= 30; ++first) {
    for (int64_t count = 0; first + count <= 30; ++count) {
      Tokens out(static_cast<size_t>(count));
      view->tokens(first, out);
      EXPECT_EQ(out, some_tokens(static_cast<size_t>(count), static_cast<int32_t>(first)));
    }
  }
}

TEST_F(StoreTest, refusals_of_slots_and_addresses_change_nothing) {
  make({.slots = 1, .banks = 3, .pages = 4, .max_tokens = 20, .records = 4});
  const SlotId id = open();
  expect_refused(
      Code::busy, [&] { return store_->open(); }, "1 slots");
  expect_refused(
      Code::busy, [&] { return store_->fork(id); }, "1 slots");
  for (const SlotId bad : {SlotId{-1, 1}, SlotId{1, 1}, SlotId{id.slot, id.generation + 1}, SlotId{}}) {
    expect_refused(
        Code::stale, [&] { return begin(bad, {1}); }, "slot");
    expect_refused(
        Code::stale, [&] { return store_->view(bad); }, "slot");
    expect_refused(
        Code::stale, [&] { return store_->close(bad); }, "slot");
  }
  expect_refused(
      Code::invalid_argument, [&] { return begin(id, {}); }, "no tokens");
  expect_refused(
      Code::invalid_argument, [&] { return store_->begin({}); }, "empty");
  expect_refused(
      Code::invalid_argument, [&] { return begin(id, some_tokens(21)); }, "20");
  append(id, some_tokens(20));
  expect_refused(
      Code::invalid_argument, [&] { return begin(id, {1}); }, "20");
  EXPECT_TRUE(shows(id, some_tokens(20)));
}

TEST_F(StoreTest, a_slot_has_at_most_one_private_image) {
  make({.slots = 2, .banks = 6, .pages = 8, .max_tokens = 20, .records = 6});
  const SlotId a = open(), b = open();
  const Tokens one{1};
  const Append twice[3] = {{a, one}, {b, one}, {a, one}};
  expect_refused(
      Code::invalid_argument, [&] { return store_->begin(twice); }, "twice");
  {
    const auto flight = begin(a, one);
    ASSERT_TRUE(flight.ok());
    const Append overlapping[2] = {{b, one}, {a, one}};
    expect_refused(
        Code::busy, [&] { return store_->begin(overlapping); }, "in flight");
    expect_refused(
        Code::busy, [&] { return store_->close(a); }, "in flight");
    expect_refused(
        Code::busy, [&] { return store_->reset(a); }, "in flight");
  }
  EXPECT_TRUE(begin(a, one).ok());
}

TEST_F(StoreTest, a_batch_that_lacks_one_bank_or_one_page_is_refused_whole) {
  make({.slots = 2, .banks = 4, .pages = 3, .max_tokens = 40, .records = 6});
  const SlotId a = open(), b = open();
  append(a, some_tokens(3));
  append(b, some_tokens(3));
  const Tokens six = some_tokens(6), five = some_tokens(5);
  const Append both[2] = {{a, five}, {b, five}};
  expect_refused(
      Code::out_of_memory, [&] { return store_->begin(both); }, "2 banks; 1 of 4");
  ASSERT_TRUE(store_->reset(b).ok());
  EXPECT_TRUE(store_->begin(both).ok());
  append(b, some_tokens(8));
  append(a, five);
  expect_refused(
      Code::out_of_memory, [&] { return begin(a, some_tokens(9)); }, "2 pages");
  EXPECT_TRUE(begin(a, some_tokens(8)).ok());
  expect_refused(
      Code::out_of_memory, [&] { return begin(b, some_tokens(17)); }, "3 pages");
}

TEST_F(StoreTest, held_views_that_leave_no_record_refuse_work_until_one_is_released) {
  make({.slots = 1, .banks = 8, .pages = 8, .max_tokens = 40, .records = 3});
  const SlotId id = open();
  std::vector<View> held;
  for (int i = 0; i < 2; ++i) {
    held.push_back(store_->view(id).value());
    append(id, {i});
  }
  expect_refused(
      Code::busy, [&] { return begin(id, {7}); }, "3 records");
  expect_refused(
      Code::busy, [&] { return store_->reset(id); }, "3 records");
  expect_refused(
      Code::busy, [&] { return store_->close(id); }, "3 records");
  held.pop_back();
  append(id, {2});
  EXPECT_TRUE(shows(id, {0, 1, 2}));
  EXPECT_TRUE(toy::shows(layout_, held[0], {}));
}

TEST_F(StoreTest, a_device_that_fails_while_a_shared_page_is_copied_leaves_everything_as_it_was) {
  for (int n = 0; n < 3; ++n) {  // the toy layout has three parts
    make({.slots = 2, .banks = 6, .pages = 8, .max_tokens = 40, .records = 4});
    const SlotId a = open();
    append(a, some_tokens(5));
    const auto b = store_->fork(a);
    ASSERT_TRUE(b.ok());
    expect_refused(
        Code::device,
        [&] {
          device_.copies_until_failure = n;
          return begin(a, {9, 9});
        },
        "copy refused");
    EXPECT_TRUE(shows(a, some_tokens(5)));
    EXPECT_TRUE(shows(*b, some_tokens(5)));
    append(a, {5});
    EXPECT_TRUE(shows(a, some_tokens(6)));
    EXPECT_TRUE(shows(*b, some_tokens(5)));
    store_.reset();
  }
}

TEST_F(StoreTest, creation_refuses_impossible_limits_and_keeps_nothing_when_memory_fails) {
  const Limits good{.slots = 1, .banks = 3, .pages = 4, .max_tokens = 32, .records = 4};
  const auto code = [&](auto change) {
    Limits limits = good;
    change(limits);
    const auto made = Store::create(device_, layout_, limits);
    return made.ok() ? std::string("ok") : std::string(code_name(made.error().code));
  };
  EXPECT_EQ(code([](Limits&) {}), "ok");
  EXPECT_EQ(code([](Limits& l) { l.slots = 0; }), "invalid_argument");
  EXPECT_EQ(code([](Limits& l) { l.banks = 1; }), "invalid_argument");
  EXPECT_EQ(code([](Limits& l) { l.pages = -1; }), "invalid_argument");
  EXPECT_EQ(code([](Limits& l) { l.records = 1; }), "invalid_argument");
  EXPECT_EQ(code([](Limits& l) { l.max_tokens = 0; }), "invalid_argument");
  EXPECT_EQ(code([](Limits& l) { l.max_tokens = int64_t{1} << 40; }), "invalid_argument");
  EXPECT_EQ(device_.held, 0);
  for (int n = 0; n < 2; ++n) {
    device_.allocations_until_failure = n;
    EXPECT_EQ(code([](Limits&) {}), "out_of_memory");
    EXPECT_EQ(device_.held, 0);
  }
  device_.uploads_fail = true;
  EXPECT_EQ(code([](Limits&) {}), "device");
  EXPECT_EQ(device_.held, 0);
}

TEST_F(StoreTest, a_checkpoint_copies_nothing_and_survives_the_growth_of_its_sequence_over_the_shared_page) {
  make({.slots = 1, .checkpoints = 1, .banks = 4, .pages = 6, .max_tokens = 40, .records = 4});
  const SlotId id = open();
  append(id, some_tokens(11));
  const Usage before = store_->usage();
  const auto kept = store_->checkpoint(id);
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(store_->usage().banks, before.banks);
  EXPECT_EQ(store_->usage().pages, before.pages);
  expect_refused(
      Code::busy, [&] { return store_->checkpoint(id); }, "1 checkpoints");
  for (int32_t round = 0; round < 5; ++round) {
    append(id, some_tokens(9, 100 * round));
    ASSERT_TRUE(store_->rewind(id, *kept).ok());
    EXPECT_TRUE(shows(id, some_tokens(11)));
    EXPECT_EQ(store_->usage().banks, before.banks);
    EXPECT_EQ(store_->usage().pages, before.pages);
    store_->check_consistency();
  }
  ASSERT_TRUE(store_->close(id).ok());
  EXPECT_EQ(store_->release(*kept).error().code, Code::stale);
  EXPECT_EQ(store_->usage().pages, 0);
}

TEST_F(StoreTest, rewinding_and_replacing_are_refused_in_flight_and_when_the_target_moved_on) {
  make({.slots = 2, .checkpoints = 1, .banks = 7, .pages = 12, .max_tokens = 40, .records = 6});
  const SlotId a = open(), b = open();
  append(a, some_tokens(5));
  append(b, some_tokens(3, 50));
  const auto kept = store_->checkpoint(a);
  const uint64_t seen = store_->view(a)->changed();
  {
    const auto flight = begin(a, some_tokens(2));
    ASSERT_TRUE(flight.ok());
    expect_refused(
        Code::busy, [&] { return store_->rewind(a, *kept); }, "in flight");
    expect_refused(
        Code::busy, [&] { return store_->assign(a, b); }, "in flight");
    expect_refused(
        Code::busy, [&] { return store_->replace(a, b, seen); }, "in flight");
    expect_refused(
        Code::busy, [&] { return store_->replace(b, a, 0); }, "in flight");
  }
  append(b, some_tokens(1, 53));
  EXPECT_EQ(store_->view(a)->changed(), seen);  // another sequence's publication is none of ours
  append(a, some_tokens(1, 5));
  expect_refused(
      Code::busy, [&] { return store_->replace(a, b, seen); }, "changed");
  expect_refused(
      Code::invalid_argument, [&] { return store_->replace(a, a, store_->view(a)->changed()); }, "itself");
  EXPECT_TRUE(shows(a, some_tokens(6)));
  ASSERT_TRUE(store_->replace(a, b, store_->view(a)->changed()).ok());
  EXPECT_TRUE(shows(a, some_tokens(4, 50)));
  EXPECT_TRUE(shows(b, {}));
  EXPECT_FALSE(store_->frontier(*kept).ok());  // its sequence has another history now
  store_->check_consistency();
}

TEST_F(StoreTest, the_digest_of_the_tokens_is_kept_right_over_leaves_forks_and_rewinds) {
  make({.slots = 2, .checkpoints = 1, .banks = 6, .pages = 1200, .max_tokens = 4000, .records = 6});
  const SlotId a = open();
  const auto right = [&](SlotId id) {
    const auto view = store_->view(id);
    Tokens tokens(static_cast<size_t>(view->frontier()));
    view->tokens(0, tokens);
    TreeDigest tree;
    tree.update(std::as_bytes(std::span(tokens)));
    return view->tokens_digest() == tree.root();
  };
  EXPECT_TRUE(right(a));
  for (const size_t step : {1u, 1000u, 22u, 1u, 1u, 1024u, 1023u, 3u}) {  // around the leaves of 1024
    append(a, some_tokens(step, static_cast<int32_t>(*store_->frontier(a))));
    EXPECT_TRUE(right(a)) << *store_->frontier(a);
    ASSERT_TRUE(step != 1023 || store_->checkpoint(a).ok());
  }
  const auto b = store_->fork(a);
  append(*b, some_tokens(100, 9000));
  EXPECT_TRUE(right(*b));
  append(a, some_tokens(500, 7000));
  ASSERT_TRUE(store_->rewind(a, *store_->nearest_checkpoint(a, 3100)).ok());
  EXPECT_EQ(*store_->frontier(a), 3072);
  EXPECT_TRUE(right(a) && right(*b));
  append(a, some_tokens(1, 1));
  EXPECT_TRUE(right(a));
}

}  // namespace
}  // namespace evros::state
