// Snapshot files of the toy model, byte by byte: what is not exactly what was saved is refused, and a store that refuses is as
// it was.
#include "state/snapshot.h"

#include <gtest/gtest.h>

#include <numeric>

#include "io/memory_io.h"
#include "state/digest.h"
#include "state/toy_testing.h"

namespace evros::state {
namespace {

const SnapshotIdentity kIdentity{{std::byte{1}, std::byte{2}}, "N1/toy"};
const std::string kText = "words";

/// An Io that fails at its Nth changing call.
class FailingIo final : public io::Io {
 public:
  explicit FailingIo(io::Io& inner, int calls) : inner_(inner), left_(calls) {}
  Result<std::unique_ptr<io::File>> open(const std::string& path) override { return inner_.open(path); }
  Result<std::unique_ptr<io::File>> create(const std::string& path) override {
    EVROS_TRY(count("create"));
    EVROS_ASSIGN(std::unique_ptr<io::File> file, inner_.create(path));
    return {std::make_unique<FailingFile>(*this, std::move(file))};
  }
  Status rename(const std::string& from, const std::string& to) override {
    EVROS_TRY(count("rename"));
    return inner_.rename(from, to);
  }
  Status remove(const std::string& path) override { return inner_.remove(path); }
  Status sync_folder(const std::string& path) override {
    EVROS_TRY(count("sync_folder"));
    return inner_.sync_folder(path);
  }
  Status make_folder(const std::string& path) override { return inner_.make_folder(path); }
  bool exists(const std::string& path) const override { return inner_.exists(path); }
  bool is_folder(const std::string& path) const override { return inner_.is_folder(path); }
  Result<std::vector<std::string>> list(const std::string& path) const override { return inner_.list(path); }
  uint64_t now_ns() const override { return inner_.now_ns(); }

  std::string failed;  // which call it was

 private:
  class FailingFile final : public io::File {
   public:
    FailingFile(FailingIo& io, std::unique_ptr<io::File> file) : io_(io), file_(std::move(file)) {}
    const std::string& path() const override { return file_->path(); }
    uint64_t size() const override { return file_->size(); }
    Status read_at(uint64_t offset, std::span<std::byte> out) const override { return file_->read_at(offset, out); }
    Status write_at(uint64_t offset, std::span<const std::byte> bytes) override {
      EVROS_TRY(io_.count("write"));
      return file_->write_at(offset, bytes);
    }
    Status truncate(uint64_t size) override { return file_->truncate(size); }
    Status sync() override {
      EVROS_TRY(io_.count("sync"));
      return file_->sync();
    }

   private:
    FailingIo& io_;
    std::unique_ptr<io::File> file_;
  };

  Status count(const char* what) {
    if (left_-- != 0) return {};
    failed = what;
    return Error{Code::io, "the disk is full"};
  }

  io::Io& inner_;
  int left_;
};

class StateSnapshot : public testing::Test {
 protected:
  std::unique_ptr<Store> make(int64_t max_tokens = 64) {
    const Limits limits{.slots = 2, .checkpoints = 0, .banks = 5, .pages = 20, .max_tokens = max_tokens, .records = 6};
    return Store::create(*device_, layout_, limits).value();
  }
  SlotId fill(Store& store, const std::vector<int32_t>& tokens) {
    const SlotId id = *store.open();
    const Append append{id, tokens};
    auto transaction = store.begin({&append, 1});
    toy::run_stages(layout_, transaction->images()[0], tokens, true);
    const bool clean = true;
    store.publish(std::move(*transaction), {&clean, 1});
    return id;
  }
  Status save(io::Io& io, Store& store, SlotId id) {
    const auto view = store.view(id);
    return save_snapshot(io, "d/f", store, *view, kIdentity, std::as_bytes(std::span(kText)));
  }
  Status restore(Store& store, SlotId slot) {
    EVROS_ASSIGN(const Snapshot snapshot, Snapshot::open(io_, "d/f"));
    EVROS_TRY(snapshot.attachment());
    return snapshot.restore(store, slot, kIdentity);
  }

  std::unique_ptr<device::Device> device_ = device::make_host_device(1);
  const Layout layout_ = toy::layout();
  io::MemoryIo io_;
  std::vector<int32_t> tokens_ = [] {
    std::vector<int32_t> out(29);
    std::iota(out.begin(), out.end(), 5);
    return out;
  }();
};

TEST_F(StateSnapshot, a_restored_image_is_the_saved_one_and_grows_on) {
  const auto store = make();
  ASSERT_TRUE(save(io_, *store, fill(*store, tokens_)).ok());
  const auto other = make();
  const SlotId slot = *other->open();
  ASSERT_TRUE(restore(*other, slot).ok());
  EXPECT_TRUE(toy::shows(layout_, *other->view(slot), tokens_));
  EXPECT_EQ(other->view(slot)->tokens_digest(), store->view({0, 1})->tokens_digest());
  const auto snapshot = Snapshot::open(io_, "d/f");
  EXPECT_TRUE(snapshot->verify().ok());
  EXPECT_EQ(*snapshot->attachment(), kText);
  EXPECT_EQ(snapshot->header().identity, kIdentity);
  // 72 and 40 bytes of bank; 8 + 12 bytes a token and 16 for each of 7 blocks of four; 4 bytes a token id.
  const uint64_t expected[] = {72, 40, 29 * 20, 7 * 16, 29 * 4};
  ASSERT_EQ(snapshot->header().sections.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(snapshot->header().sections[i].bytes, expected[i]) << i;
}

TEST_F(StateSnapshot, no_truncation_and_no_single_flipped_bit_is_taken_for_a_snapshot) {
  const auto store = make();
  ASSERT_TRUE(save(io_, *store, fill(*store, tokens_)).ok());
  const std::string whole = io_.get("d/f");
  const auto other = make();
  const SlotId slot = *other->open();
  const auto refused = [&](std::string content) {
    io_.put("d/f", std::move(content));
    return !restore(*other, slot).ok() && *other->frontier(slot) == 0 && other->usage().pages == 0;
  };
  for (size_t length = 0; length < whole.size(); ++length) EXPECT_TRUE(refused(whole.substr(0, length))) << length;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_TRUE(refused(flipped)) << bit;
    const auto snapshot = Snapshot::open(io_, "d/f");
    EXPECT_FALSE(snapshot.ok() && snapshot->verify().ok()) << bit;
  }
  EXPECT_TRUE(refused(whole + "x"));
  io_.put("d/f", whole);
  EXPECT_TRUE(restore(*other, slot).ok());
  other->check_consistency();
}

TEST_F(StateSnapshot, a_write_that_fails_at_any_step_leaves_the_old_file_and_no_partial_one) {
  const auto store = make();
  const SlotId id = fill(*store, tokens_);
  io_.put("d/f", "the old one");
  std::vector<std::string> failed;
  for (int n = 0;; ++n) {
    FailingIo io(io_, n);
    const Status status = save(io, *store, id);
    if (status.ok()) break;
    failed.push_back(io.failed);
    EXPECT_EQ(io_.get("d/f") == "the old one",
              io.failed != "sync_folder");  // after the rename the new one is there, whole
    EXPECT_FALSE(io_.exists("d/f.partial"));
  }
  EXPECT_EQ(failed.front(), "create");
  EXPECT_EQ(failed.back(), "sync_folder");
  EXPECT_EQ(failed[failed.size() - 2], "rename");
  EXPECT_EQ(failed[failed.size() - 3], "sync");
  EXPECT_TRUE(Snapshot::open(io_, "d/f")->verify().ok());
}

TEST_F(StateSnapshot, other_models_numerics_layouts_and_shorter_contexts_are_refused_with_a_reason) {
  const auto store = make();
  ASSERT_TRUE(save(io_, *store, fill(*store, tokens_)).ok());
  const auto snapshot = Snapshot::open(io_, "d/f");
  const auto message = [&](Store& into, SnapshotIdentity identity) {
    const Status status = snapshot->restore(into, *into.open(), identity);
    EXPECT_EQ(into.usage().pages, 0);
    return status.ok() ? "" : status.error().message;
  };
  SnapshotIdentity model = kIdentity, numerics = kIdentity;
  model.model[31] = std::byte{1};
  numerics.numerics = "N2/toy";
  EXPECT_NE(message(*make(), model).find("another model"), std::string::npos);
  EXPECT_NE(message(*make(), numerics).find("N2/toy"), std::string::npos);
  EXPECT_NE(message(*make(28), kIdentity).find("28"), std::string::npos);
  Layout wider = layout_;
  wider.bank[1].bytes += 4;
  const Limits limits{.slots = 1, .checkpoints = 0, .banks = 3, .pages = 9, .max_tokens = 64, .records = 4};
  EXPECT_NE(message(**Store::create(*device_, wider, limits), kIdentity).find("sizes"), std::string::npos);
}

TEST_F(StateSnapshot, digests_do_not_depend_on_where_the_bytes_lie) {
  Layout moved = layout_;  // other places in bank and page, other pages
  moved.bank[0].offset = 256;
  moved.bank_bytes = 384;
  moved.origin.assign(384, std::byte{0});
  toy::fill(moved.origin.data() + 256, 72, toy::kSeed);
  toy::fill(moved.origin.data() + 128, 40, toy::kSeed);
  moved.page = {
      {Owner::kv_rows, 0, 512, 8, 1, 16}, {Owner::kv_rows, 1, 0, 12, 1, 16}, {Owner::index_blocks, 1, 256, 16, 4, 4}};
  moved.page_bytes = 640;
  moved.page_tokens = 16;
  const auto store = make();
  ASSERT_TRUE(save(io_, *store, fill(*store, tokens_)).ok());
  const Limits limits{.slots = 1, .checkpoints = 0, .banks = 3, .pages = 9, .max_tokens = 64, .records = 4};
  const auto other = Store::create(*device_, moved, limits);
  const SlotId slot = *(*other)->open();
  const Status status = restore(**other, slot);
  ASSERT_TRUE(status.ok()) << status.error().message;
  const auto a = owner_digests(*store, *store->view({0, 1})), b = owner_digests(**other, *(*other)->view(slot));
  EXPECT_EQ(combined("x", *a), combined("x", *b));
  EXPECT_FALSE(combined("x", *a) == combined("y", *b));
}

}  // namespace
}  // namespace evros::state
