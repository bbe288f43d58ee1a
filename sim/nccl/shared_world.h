// What the ranks of one communicator share: a piece of POSIX shared memory, named by the unique id. One
// machine only. The name is gone as soon as all have joined, or the process that made the id ends.
//
// Entry stamps are CLOCK_MONOTONIC nanoseconds, which all processes of a machine share. Every rank publishes
// when each operation begins on its device; when all that it needs are there it knows the operation's end.
// One thread per rank and purpose; Publish from any.
#ifndef LOCKSTEP_SIM_NCCL_SHARED_WORLD_H_
#define LOCKSTEP_SIM_NCCL_SHARED_WORLD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::sim {

class SharedWorld {
 public:
  static constexpr size_t kWindowBytes = size_t{4} << 20;
  static constexpr size_t kMailBytes = size_t{256} << 10;
  static constexpr int kMostRanks = 64;
  static constexpr uint64_t kRing =
      256;  // operations between the fastest and the slowest rank: two are enough

  struct Member {
    uint64_t host = 0;
    int32_t device = 0;
    int32_t color = 0;  // of the split that is being made
    int32_t key = 0;
  };
  struct Mail {
    std::atomic<uint32_t> full;
    uint32_t bytes;
    uint8_t data[kMailBytes];
  };

  // Waits until all ranks have joined. Null, and why in `*trouble`, after two minutes or when memory cannot
  // be had.
  static std::unique_ptr<SharedWorld> Join(uint64_t id, int ranks, int rank, const Member& self,
                                           std::string* trouble);
  ~SharedWorld();
  SharedWorld(const SharedWorld&) = delete;
  SharedWorld& operator=(const SharedWorld&) = delete;

  static std::string NameOf(uint64_t id);

  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  const Member& member(int rank) const;
  void SetSplit(int color, int key);
  // All ranks, in this order of calls. Blocks; false when `stop` became true.
  bool Barrier(const std::atomic<bool>& stop);

  // Collectives, by the communicator's own count of them.
  void Publish(uint64_t serial, int64_t start_ns);
  // -1: not there yet.
  int64_t StartOf(uint64_t serial, int rank) const;
  // Transfers from `from` to `to`, by the pair's count of them.
  enum class End { kSender = 0, kReceiver = 1 };
  void PublishTransfer(int from, int to, End end, uint64_t serial, int64_t start_ns);
  int64_t StartOfTransfer(int from, int to, End end, uint64_t serial) const;

  uint8_t* window(int rank) const;
  Mail& mail(int from, int to) const;

  // The count of news: read it, look at what you wait for, then wait while it is still that.
  uint32_t news() const;
  void WaitForNews(uint32_t seen) const;  // at most some milliseconds
  void TellNews() const;

 private:
  struct Header;
  struct Entry;
  SharedWorld(uint64_t id, int ranks, int rank) : id_(id), ranks_(ranks), rank_(rank) {}
  bool Map(std::string* trouble);
  Entry& entry(uint64_t serial, int rank) const;
  Entry& transfer(int from, int to, End end, uint64_t serial) const;

  const uint64_t id_;
  const int ranks_;
  const int rank_;
  uint8_t* base_ = nullptr;
  size_t bytes_ = 0;
  size_t entries_at_ = 0, transfers_at_ = 0, windows_at_ = 0, mail_at_ = 0;
  uint64_t barriers_ = 0;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_NCCL_SHARED_WORLD_H_
