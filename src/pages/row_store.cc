#include "pages/row_store.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "base/bytes.h"
#include "base/str.h"
#include "pages/frame_set.h"

namespace evros::pages {

namespace {

constexpr uint64_t kLongestRead = 256u << 10;
constexpr uint64_t kResidentRead = 8u << 20;
constexpr uint64_t kAddressSpace = uint64_t{1} << 47;  // more is refused without bothering an allocator

std::unique_ptr<std::byte[]> try_allocate(uint64_t bytes) {
  if (bytes > kAddressSpace) return nullptr;
  return std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[bytes]);
}

/// Bytes of the table: the pieces are the tensor, end to end.
Result<uint64_t> table_bytes(const format::ModelFile& file, const format::Tensor& table) {
  const auto refuse = [&](Code code, std::string why) {
    return Error{code, cat(file.path(), ": ", table.name, ": ", why)};
  };
  if (table.columns.key_heads != 0) return refuse(Code::unsupported, "a table with reordered columns cannot be paged");
  uint64_t bytes = 0;
  for (const format::Piece& piece : table.pieces) {
    const auto sum = checked_add(bytes, piece.bytes);
    if (!sum) return refuse(Code::bad_file, "its pieces are longer than 64 bits can count");
    bytes = *sum;
  }
  if (table.rows() == 0 || bytes == 0 || bytes % table.rows() != 0) {
    return refuse(Code::bad_file, cat(bytes, " bytes are not ", table.rows(), " rows of equal length"));
  }
  return bytes;
}

}  // namespace

struct RowStore::Impl {
  const format::ModelFile& file;
  const format::Tensor table;
  const uint64_t bytes, rows, row_bytes, frame_bytes;

  std::unique_ptr<std::byte[]> resident;  // the whole table, or
  std::unique_ptr<std::byte[]> memory;    // the frames
  mutable std::mutex mutex;         // `frames` and `stats`; the bytes of a frame belong to its loader, then to nobody
  std::condition_variable changed;  // some frame is no longer loading
  std::unique_ptr<FrameSet> frames;
  RowStoreStats stats;

  std::byte* frame_data(int32_t frame) const { return memory.get() + static_cast<uint64_t>(frame) * frame_bytes; }
  uint64_t first_page(uint64_t row) const { return row * row_bytes / frame_bytes; }
  uint64_t last_page(uint64_t row) const { return (row * row_bytes + row_bytes - 1) / frame_bytes; }
  uint64_t page_length(uint64_t page) const { return std::min(frame_bytes, bytes - page * frame_bytes); }

  Status load_all();
  Status make_frames(const RowStoreOptions& options);
  Status check_rows(std::span<const uint64_t> asked) const;
  /// Holds a frame for every page of the lease, or none. Pages that are nowhere get an empty one. Under the lock.
  Status hold_all(Lease& lease);
  /// Reads every empty frame of the lease and waits for those that others read, until all are ready.
  Status load(Lease& lease, std::unique_lock<std::mutex>& lock);
  /// read() without the lock; those that succeeded are then ready, the others empty.
  Status read_unlocked(Lease& lease, std::span<const size_t> mine, std::unique_lock<std::mutex>& lock);
  /// Reads the pages at `which` (places in the lease, ascending) into their frames; how many succeeded, in order, is in `done`.
  Status read(Lease& lease, std::span<const size_t> which, size_t& done) const;
  size_t longest_read() const { return static_cast<size_t>(std::max<uint64_t>(1, kLongestRead / frame_bytes)); }
  void release(std::span<const int32_t> held);
};

Status RowStore::Impl::load_all() {
  resident = try_allocate(bytes);
  if (resident == nullptr) {
    return Error{Code::out_of_memory,
                 cat("no ", bytes, " bytes of memory to keep ", table.name, " of ", file.path(), " resident")};
  }
  for (uint64_t at = 0; at < bytes; at += kResidentRead) {
    EVROS_TRY(file.read(table, at, {resident.get() + at, std::min(kResidentRead, bytes - at)}));
  }
  stats.bytes_read = bytes;
  return {};
}

Status RowStore::Impl::make_frames(const RowStoreOptions& options) {
  const uint64_t most = (bytes + frame_bytes - 1) / frame_bytes;  // a frame for every page; more would never be used
  const uint64_t count = std::min(options.memory_bytes / frame_bytes, most);
  const uint64_t least =
      std::min((row_bytes + frame_bytes - 2) / frame_bytes + 1, most);  // one row, wherever it starts
  if (count < least) {
    return Error{Code::invalid_argument, cat(table.name, ": ", options.memory_bytes, " bytes of frames hold no row of ",
                                             row_bytes, " bytes; at least ", least * frame_bytes, " are needed")};
  }
  if (count > INT32_MAX) {
    return Error{Code::invalid_argument, cat(table.name, ": ", count, " frames are too many; at most ", INT32_MAX)};
  }
  memory = try_allocate(count * frame_bytes);
  if (memory == nullptr) {
    return Error{Code::out_of_memory,
                 cat("no ", count * frame_bytes, " bytes of memory for the frames of ", table.name)};
  }
  frames = std::make_unique<FrameSet>(static_cast<int32_t>(count));
  return {};
}

Status RowStore::Impl::check_rows(std::span<const uint64_t> asked) const {
  for (const uint64_t row : asked) {
    if (row >= rows)
      return Error{Code::invalid_argument, cat(table.name, ": row ", row, " asked for; the table has ", rows)};
  }
  return {};
}

Status RowStore::Impl::hold_all(Lease& lease) {
  CHECK(lease.frames_.size() == lease.pages_.size());
  uint64_t missing = 0, newly_held = 0;
  for (size_t i = 0; i < lease.pages_.size(); ++i) {
    lease.frames_[i] = frames->find(lease.pages_[i]);
    if (lease.frames_[i] == FrameSet::kNone)
      ++missing;
    else if (!frames->is_held(lease.frames_[i]))
      ++newly_held;
  }
  const uint64_t total = static_cast<uint64_t>(frames->size()), free = total - static_cast<uint64_t>(frames->held());
  if (lease.pages_.size() > total) {
    return Error{Code::out_of_memory,
                 cat(table.name, ": ", lease.rows_.size(), " rows at once need ", lease.pages_.size(), " frames of ",
                     frame_bytes, " bytes; there are ", total)};
  }
  if (missing + newly_held > free) {
    return Error{Code::busy, cat(table.name, ": ", missing + newly_held, " frames are needed; ", free, " of ", total,
                                 " are not held by others")};
  }
  for (const uint64_t row : lease.rows_) {  // before the claims below turn misses into frames
    bool hit = true;
    for (uint64_t page = first_page(row); page <= last_page(row) && hit; ++page)
      hit = frames->find(page) != FrameSet::kNone;
    stats.rows_hit += hit ? 1 : 0;
  }
  stats.rows_asked += lease.rows_.size();
  for (const int32_t frame : lease.frames_) {  // those that are there first, so that the claims do not take them
    if (frame != FrameSet::kNone) frames->hold(frame);
  }
  for (size_t i = 0; i < lease.pages_.size(); ++i) {
    if (lease.frames_[i] == FrameSet::kNone) lease.frames_[i] = frames->claim(lease.pages_[i]);
  }
  return {};
}

// A thread reads all that it can before it waits, and never waits while it has something loading: no two wait for each other.
Status RowStore::Impl::load(Lease& lease, std::unique_lock<std::mutex>& lock) {
  std::vector<size_t>& mine = lease.missing_;
  while (true) {
    mine.clear();
    bool others = false;
    for (size_t i = 0; i < lease.frames_.size(); ++i) {
      const Content content = frames->content(lease.frames_[i]);
      if (content == Content::empty) mine.push_back(i);
      others = others || content == Content::loading;
    }
    if (mine.empty() && !others) return {};
    if (mine.empty()) {
      changed.wait(lock);
      continue;
    }
    for (const size_t i : mine) frames->set_content(lease.frames_[i], Content::loading);
    EVROS_TRY(read_unlocked(lease, mine, lock));
  }
}

Status RowStore::Impl::read_unlocked(Lease& lease, std::span<const size_t> mine, std::unique_lock<std::mutex>& lock) {
  size_t done = 0;
  struct Settle {  // whatever happens, nothing stays loading
    Impl& impl;
    const Lease& lease;
    std::span<const size_t> mine;
    std::unique_lock<std::mutex>& lock;
    size_t& done;
    ~Settle() {
      lock.lock();
      for (size_t k = 0; k < mine.size(); ++k) {
        impl.frames->set_content(lease.frames_[mine[k]], k < done ? Content::ready : Content::empty);
        impl.stats.bytes_read += k < done ? impl.page_length(lease.pages_[mine[k]]) : 0;
      }
      impl.stats.frames_read += done;
      impl.changed.notify_all();
    }
  };
  lock.unlock();
  const Settle settle{*this, lease, mine, lock, done};
  Status status = read(lease, mine, done);
  CHECK(status.ok() == (done == mine.size()));
  return status;
}

Status RowStore::Impl::read(Lease& lease, std::span<const size_t> which, size_t& done) const {
  std::unique_ptr<std::byte[]>& staging = lease.staging_;
  const size_t longest = longest_read();
  while (done < which.size()) {
    const uint64_t first = lease.pages_[which[done]];
    size_t run = 1;
    while (run < longest && done + run < which.size() && lease.pages_[which[done + run]] == first + run) ++run;
    const uint64_t length = (run - 1) * frame_bytes + page_length(first + run - 1);
    if (run == 1) {
      EVROS_TRY(file.read(table, first * frame_bytes, {frame_data(lease.frames_[which[done]]), length}));
    } else {
      if (staging == nullptr) staging = try_allocate(longest * frame_bytes);
      if (staging == nullptr)
        return Error{Code::out_of_memory, cat(table.name, ": no ", kLongestRead, " bytes to read into")};
      EVROS_TRY(file.read(table, first * frame_bytes, {staging.get(), length}));
      for (size_t k = 0; k < run; ++k) {
        std::memcpy(frame_data(lease.frames_[which[done + k]]), staging.get() + k * frame_bytes,
                    page_length(first + k));
      }
    }
    done += run;
  }
  return {};
}

void RowStore::Impl::release(std::span<const int32_t> held) {
  for (const int32_t frame : held) frames->release(frame);
}

RowStore::RowStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RowStore::~RowStore() { CHECK(frames_leased() == 0); }

Result<std::unique_ptr<RowStore>> RowStore::create(const format::ModelFile& file, const format::Tensor& table,
                                                   const RowStoreOptions& options) {
  EVROS_ASSIGN(const uint64_t bytes, table_bytes(file, table));
  if (options.frame_bytes == 0) {
    return Error{Code::invalid_argument, cat(table.name, ": frames of 0 bytes; at least 1 is needed")};
  }
  const uint64_t rows = table.rows();
  std::unique_ptr<Impl> impl(
      new Impl{file, table, bytes, rows, bytes / rows, options.frame_bytes, {}, {}, {}, {}, {}, {}});
  if (options.resident) {
    EVROS_TRY(impl->load_all());
  } else {
    EVROS_TRY(impl->make_frames(options));
  }
  return std::unique_ptr<RowStore>(new RowStore(std::move(impl)));
}

uint64_t RowStore::rows() const { return impl_->rows; }
uint64_t RowStore::row_bytes() const { return impl_->row_bytes; }

void RowStore::announce(std::span<const uint64_t> rows) const {
  if (impl_->resident != nullptr) return;
  const std::lock_guard lock(impl_->mutex);
  for (const uint64_t row : rows) {
    if (row >= impl_->rows) continue;  // acquire() says it
    for (uint64_t page = impl_->first_page(row); page <= impl_->last_page(row); ++page) {
      if (impl_->frames->find(page) != FrameSet::kNone) continue;
      impl_->file.will_read(impl_->table, page * impl_->frame_bytes, impl_->page_length(page));
    }
  }
}

Result<Lease> RowStore::acquire(std::span<const uint64_t> rows) {
  Lease lease;
  EVROS_TRY(acquire(rows, lease));
  return lease;
}

Status RowStore::acquire(std::span<const uint64_t> rows, Lease& lease) {
  lease.release();
  EVROS_TRY(impl_->check_rows(rows));
  lease.rows_.assign(rows.begin(), rows.end());
  if (impl_->resident != nullptr) {
    const std::lock_guard lock(impl_->mutex);
    impl_->stats.rows_asked += rows.size();
    impl_->stats.rows_hit += rows.size();
    lease.store_ = this;
    return {};
  }
  for (const uint64_t row : rows) {
    for (uint64_t page = impl_->first_page(row); page <= impl_->last_page(row); ++page) lease.pages_.push_back(page);
  }
  std::sort(lease.pages_.begin(), lease.pages_.end());
  lease.pages_.erase(std::unique(lease.pages_.begin(), lease.pages_.end()), lease.pages_.end());
  lease.frames_.resize(lease.pages_.size());

  Status status;
  {
    std::unique_lock lock(impl_->mutex);
    EVROS_TRY(impl_->hold_all(lease));
    lease.store_ = this;  // from here on release() gives the frames back
    status = impl_->load(lease, lock);
  }
  if (!status.ok()) lease.release();
  return status;
}

Lease RowStore::make_lease(size_t rows) const {
  Lease lease;
  lease.rows_.reserve(rows);
  if (impl_->resident != nullptr) return lease;
  const size_t pages = rows * static_cast<size_t>(frames_of_row(impl_->row_bytes, impl_->frame_bytes));
  lease.pages_.reserve(pages);
  lease.frames_.reserve(pages);
  lease.missing_.reserve(pages);
  lease.staging_ = std::make_unique_for_overwrite<std::byte[]>(impl_->longest_read() * impl_->frame_bytes);
  return lease;
}

RowStoreStats RowStore::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

int32_t RowStore::frames_leased() const {
  if (impl_->frames == nullptr) return 0;
  const std::lock_guard lock(impl_->mutex);
  return impl_->frames->held();
}

Lease::Lease(Lease&& other) noexcept { *this = std::move(other); }

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  Lease old;  // releases what was held here
  old.swap(*this);
  swap(other);
  return *this;
}

void Lease::swap(Lease& other) noexcept {
  std::swap(store_, other.store_);
  rows_.swap(other.rows_);
  pages_.swap(other.pages_);
  frames_.swap(other.frames_);
  missing_.swap(other.missing_);
  staging_.swap(other.staging_);
}

Lease::~Lease() { release(); }

void Lease::release() {
  if (store_ != nullptr && !frames_.empty()) {
    const std::lock_guard lock(store_->impl_->mutex);
    store_->impl_->release(frames_);
  }
  store_ = nullptr;
  rows_.clear();
  pages_.clear();
  frames_.clear();
}

void Lease::copy_row(size_t i, std::byte* out) const {
  CHECK(store_ != nullptr);
  CHECK(i < rows_.size());
  const RowStore::Impl& impl = *store_->impl_;
  uint64_t at = rows_[i] * impl.row_bytes, left = impl.row_bytes;
  if (impl.resident != nullptr) {
    std::memcpy(out, impl.resident.get() + at, left);
    return;
  }
  auto page = std::lower_bound(pages_.begin(), pages_.end(), at / impl.frame_bytes);
  while (left > 0) {
    CHECK(page != pages_.end() && *page == at / impl.frame_bytes);
    const uint64_t offset = at % impl.frame_bytes, count = std::min(left, impl.frame_bytes - offset);
    std::memcpy(out, impl.frame_data(frames_[static_cast<size_t>(page - pages_.begin())]) + offset, count);
    out += count;
    at += count;
    left -= count;
    ++page;
  }
}

}  // namespace evros::pages
