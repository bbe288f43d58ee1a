// Which kept captures are being read, so that none is removed under its reader.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_CAPTURE_USE_H_
#define LOCKSTEP_AGGREGATOR_INGEST_CAPTURE_USE_H_

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace lockstep::ingest {

// Any thread. What it hands out must not outlive it.
class CaptureUse {
 public:
  // Holds one capture until it is destroyed.
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

  // Null: it is being removed.
  std::unique_ptr<Hold> Read(const std::string& id) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (going_.count(id) != 0) return nullptr;
    ++readers_[id];
    return std::make_unique<Hold>(this, id);
  }
  // False: somebody reads it. Otherwise nobody may until EndRemoval.
  bool BeginRemoval(const std::string& id) {
    std::lock_guard<std::mutex> lock(mutex_);
    return readers_.count(id) == 0 && going_.insert(id).second;
  }
  void EndRemoval(const std::string& id) {
    std::lock_guard<std::mutex> lock(mutex_);
    going_.erase(id);
  }

 private:
  void Drop(const std::string& id) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto it = readers_.find(id);
    if (--it->second == 0) readers_.erase(it);
  }

  std::mutex mutex_;
  std::map<std::string, int> readers_;
  std::set<std::string> going_;
};

}  // namespace lockstep::ingest

#endif  // LOCKSTEP_AGGREGATOR_INGEST_CAPTURE_USE_H_
