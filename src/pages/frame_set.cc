#include "pages/frame_set.h"

#include <bit>

namespace evros::pages {

FrameSet::FrameSet(int32_t frames)
    : frames_(static_cast<size_t>(frames)),
      buckets_(std::bit_ceil(static_cast<size_t>(frames)), kNone),
      unheld_(frames) {
  CHECK(frames > 0);
}

const FrameSet::Frame& FrameSet::at(int32_t frame) const {
  CHECK(frame >= 0 && frame < size());
  return frames_[static_cast<size_t>(frame)];
}

FrameSet::Frame& FrameSet::at(int32_t frame) {
  CHECK(frame >= 0 && frame < size());
  return frames_[static_cast<size_t>(frame)];
}

size_t FrameSet::bucket(uint64_t page) const {
  // Multiplicative hashing: neighbouring pages spread, the high bits decide.
  const uint64_t hash = page * 0x9E3779B97F4A7C15U;
  return static_cast<size_t>(hash >> 32) & (buckets_.size() - 1);
}

int32_t FrameSet::find(uint64_t page) const {
  int32_t frame = buckets_[bucket(page)];
  while (frame != kNone && at(frame).page != page) frame = at(frame).next;
  return frame;
}

void FrameSet::set_content(int32_t frame, Content content) {
  CHECK(is_held(frame));
  CHECK(at(frame).content != Content::ready);  // bytes that somebody may read are not taken back
  at(frame).content = content;
}

void FrameSet::hold(int32_t frame) {
  Frame& f = at(frame);
  CHECK(f.page != kNoPage);
  if (f.holders++ == 0) --unheld_;
  f.used = true;
}

int32_t FrameSet::claim(uint64_t page) {
  CHECK(unheld_ > 0);
  CHECK(find(page) == kNone);
  while (true) {  // twice around at most: the first round clears every `used`
    const int32_t frame = hand_;
    hand_ = hand_ + 1 == size() ? 0 : hand_ + 1;
    Frame& f = at(frame);
    if (f.holders > 0) continue;
    if (f.page != kNoPage && f.used) {
      f.used = false;
      continue;
    }
    if (f.page != kNoPage) unlink(frame);
    link(frame, page);
    f.content = Content::empty;
    hold(frame);
    f.used =
        false;  // asked for once; most rows of a hashed table never are again, and must not push out those that are
    return frame;
  }
}

void FrameSet::release(int32_t frame) {
  Frame& f = at(frame);
  CHECK(f.holders > 0);
  if (--f.holders > 0) return;
  ++unheld_;
  CHECK(f.content != Content::loading);
  if (f.content == Content::empty) unlink(frame);
}

void FrameSet::link(int32_t frame, uint64_t page) {
  CHECK(page != kNoPage && at(frame).page == kNoPage);
  int32_t& head = buckets_[bucket(page)];
  at(frame).page = page;
  at(frame).next = head;
  head = frame;
}

void FrameSet::unlink(int32_t frame) {
  CHECK(at(frame).holders == 0);
  int32_t* link = &buckets_[bucket(at(frame).page)];
  while (*link != frame) link = &at(*link).next;
  *link = at(frame).next;
  at(frame).next = kNone;
  at(frame).page = kNoPage;
  at(frame).content = Content::empty;
}

}  // namespace evros::pages
