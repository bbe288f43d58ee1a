// BlockQueue passes blocks of events from the reading to the parsing thread, and returns the emptied blocks.
#ifndef LOCKSTEP_FORMATS_KINETO_BLOCK_QUEUE_H_
#define LOCKSTEP_FORMATS_KINETO_BLOCK_QUEUE_H_

#include <deque>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "formats/kineto/trace_document.h"

namespace lockstep::formats {

// Serves one reader and one parser. At most kBlocks blocks exist, so memory is bounded even if one of the two
// is slow.
class BlockQueue {
 public:
  // Reader: returns an empty block to fill. It waits while all blocks are full.
  EventBlock TakeEmpty() {
    MutexLock lock(&mutex_);
    changed_.Wait(&mutex_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !empty_.empty() || made_ < kBlocks;
    });
    if (empty_.empty()) {
      ++made_;
      return {};
    }
    return Pop(empty_);
  }
  void PushFull(EventBlock block) {
    MutexLock lock(&mutex_);
    full_.push_back(std::move(block));
    changed_.SignalAll();
  }
  void Close() {
    MutexLock lock(&mutex_);
    closed_ = true;
    changed_.SignalAll();
  }

  // Parser: returns the next block in order. nullopt: the reader closed the queue and all blocks are taken.
  std::optional<EventBlock> TakeFull() {
    MutexLock lock(&mutex_);
    changed_.Wait(&mutex_,
                  [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !full_.empty() || closed_; });
    if (full_.empty()) return std::nullopt;
    return Pop(full_);
  }
  void PushEmpty(EventBlock block) {
    MutexLock lock(&mutex_);
    empty_.push_back(std::move(block));
    changed_.SignalAll();
  }

 private:
  static constexpr int kBlocks = 4;

  static EventBlock Pop(std::deque<EventBlock>& blocks) {
    EventBlock block = std::move(blocks.front());
    blocks.pop_front();
    return block;
  }

  Mutex mutex_;
  CondVar changed_;
  std::deque<EventBlock> full_ ABSL_GUARDED_BY(mutex_);
  std::deque<EventBlock> empty_ ABSL_GUARDED_BY(mutex_);
  int made_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_KINETO_BLOCK_QUEUE_H_
