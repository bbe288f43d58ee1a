// BlockQueue passes blocks of events from the reading to the parsing thread, and returns the emptied blocks.
#ifndef LOCKSTEP_FORMATS_KINETO_BLOCK_QUEUE_H_
#define LOCKSTEP_FORMATS_KINETO_BLOCK_QUEUE_H_

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "formats/kineto/trace_document.h"

namespace lockstep::formats {

// Serves one reader and one parser. At most kBlocks blocks exist, so memory is bounded even if one of the two
// is slow.
class BlockQueue {
 public:
  // Reader: returns an empty block to fill. It waits while all blocks are full.
  EventBlock TakeEmpty() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !empty_.empty() || made_ < kBlocks; });
    if (empty_.empty()) {
      ++made_;
      return {};
    }
    return Pop(empty_);
  }
  void PushFull(EventBlock block) { Push(full_, std::move(block)); }
  void Close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  // Parser: returns the next block in order. nullopt: the reader closed the queue and all blocks are taken.
  std::optional<EventBlock> TakeFull() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !full_.empty() || closed_; });
    if (full_.empty()) return std::nullopt;
    return Pop(full_);
  }
  void PushEmpty(EventBlock block) { Push(empty_, std::move(block)); }

 private:
  static constexpr int kBlocks = 4;

  static EventBlock Pop(std::deque<EventBlock>& blocks) {
    EventBlock block = std::move(blocks.front());
    blocks.pop_front();
    return block;
  }
  void Push(std::deque<EventBlock>& blocks, EventBlock block) {
    std::lock_guard lock(mutex_);
    blocks.push_back(std::move(block));
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<EventBlock> full_;
  std::deque<EventBlock> empty_;
  int made_ = 0;
  bool closed_ = false;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_KINETO_BLOCK_QUEUE_H_
