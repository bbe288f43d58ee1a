// CaptureUse records which stored captures are being read, so that none is removed while it is read.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_CAPTURE_USE_H_
#define LOCKSTEP_AGGREGATOR_INGEST_CAPTURE_USE_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/mutex.h"

namespace lockstep::aggregator {

// Thread-safe. A Hold must not outlive it.
class CaptureUse {
 public:
  // Protects one capture from removal while it exists.
  class Hold {
   public:
    Hold(CaptureUse* use, std::string id) : use_(use), id_(std::move(id)) {}
    Hold(Hold&& other) noexcept : use_(std::exchange(other.use_, nullptr)), id_(std::move(other.id_)) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
      if (use_ != nullptr) use_->Drop(id_);
    }

   private:
    CaptureUse* use_;
    std::string id_;
  };

  // Returns null if the capture is being removed.
  std::unique_ptr<Hold> Read(const std::string& id) {
    MutexLock lock(&mutex_);
    if (removing_.count(id) != 0) return nullptr;
    ++readers_[id];
    return std::make_unique<Hold>(this, id);
  }
  // Returns false if the capture is being read. Otherwise Read fails until EndRemoval.
  bool BeginRemoval(const std::string& id) {
    MutexLock lock(&mutex_);
    return readers_.count(id) == 0 && removing_.insert(id).second;
  }
  void EndRemoval(const std::string& id) {
    MutexLock lock(&mutex_);
    removing_.erase(id);
  }

 private:
  void Drop(const std::string& id) {
    MutexLock lock(&mutex_);
    const auto it = readers_.find(id);
    if (--it->second == 0) readers_.erase(it);
  }

  Mutex mutex_;
  std::map<std::string, int> readers_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> removing_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_INGEST_CAPTURE_USE_H_
