// The bookkeeping of a fixed set of frames: which part of the table lies where, who holds it, and which frame to reuse (clock).
// No bytes, no reads, no lock: RowStore brings those. Never allocates after construction. Internal to pages/.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"

namespace evros::pages {

enum class Content : uint8_t {
  empty,    // nothing, or the last read failed; belongs to a page only while it is held
  loading,  // one thread, which holds it, writes the bytes
  ready,    // the bytes of its page; they do not change until the frame is reused
};

class FrameSet {
 public:
  static constexpr int32_t kNone = -1;
  static constexpr uint64_t kNoPage = ~uint64_t{0};

  explicit FrameSet(int32_t frames);

  int32_t size() const { return static_cast<int32_t>(frames_.size()); }
  int32_t held() const { return size() - unheld_; }

  /// The frame of `page`, whatever its content, or kNone.
  int32_t find(uint64_t page) const;
  Content content(int32_t frame) const { return at(frame).content; }
  void set_content(int32_t frame, Content content);
  bool is_held(int32_t frame) const { return at(frame).holders > 0; }

  /// One more holder: the frame keeps its page until release().
  void hold(int32_t frame);
  /// Gives an unheld frame to `page`, which has none: empty, held once. The caller made sure that there is one.
  int32_t claim(uint64_t page);
  /// The last holder of an empty frame also takes its page away.
  void release(int32_t frame);

 private:
  struct Frame {
    uint64_t page = kNoPage;
    int32_t next = kNone;  // in the chain of its bucket
    int32_t holders = 0;
    Content content = Content::empty;
    bool used = false;  // asked for again since the clock hand came by
  };
  const Frame& at(int32_t frame) const;
  Frame& at(int32_t frame);
  size_t bucket(uint64_t page) const;
  void link(int32_t frame, uint64_t page);
  void unlink(int32_t frame);

  std::vector<Frame> frames_;
  std::vector<int32_t> buckets_;  // heads of chains; a power of two
  int32_t unheld_;
  int32_t hand_ = 0;
};

}  // namespace evros::pages
