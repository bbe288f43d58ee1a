// The POSIX shared memory of the ranks of one communicator, named by the unique id. It connects ranks of one
// machine only. The name is removed as soon as all ranks have joined, or when the process that made the id
// ends.
//
// Every rank publishes the start of each operation on its device. A rank computes the operation's end from
// the starts that it needs. Starts are CLOCK_MONOTONIC nanoseconds, which all processes of a machine share.
// Each function has one calling thread per rank. Any thread may call Publish.
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
  // Highest number of operations between the fastest and the slowest rank; two are enough.
  static constexpr uint64_t kRing = 256;

  struct Member {
    uint64_t host = 0;
    int32_t device = 0;
    int32_t color = 0;  // color of the current split
    int32_t key = 0;
  };
  struct Mail {
    std::atomic<uint32_t> full;
    uint32_t bytes;
    uint8_t data[kMailBytes];
  };

  // Waits until all ranks have joined. Returns null and sets `*error` after two minutes, or if the memory
  // is not available.
  static std::unique_ptr<SharedWorld> Join(uint64_t id, int ranks, int rank, const Member& self,
                                           std::string* error);
  ~SharedWorld();
  SharedWorld(const SharedWorld&) = delete;
  SharedWorld& operator=(const SharedWorld&) = delete;

  static std::string NameOf(uint64_t id);

  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  const Member& member(int rank) const;
  void SetSplit(int color, int key);
  // All ranks must call it in the same order. It blocks, and returns false if `stop` becomes true.
  bool Barrier(const std::atomic<bool>& stop);

  // Starts of collectives, by the communicator's own count of them.
  void Publish(uint64_t serial, int64_t start_ns);
  // Returns -1 until the rank has published its start.
  int64_t StartOf(uint64_t serial, int rank) const;
  // Starts of transfers from `from` to `to`, by the pair's count of them.
  enum class End { kSender = 0, kReceiver = 1 };
  void PublishTransfer(int from, int to, End end, uint64_t serial, int64_t start_ns);
  int64_t StartOfTransfer(int from, int to, End end, uint64_t serial) const;

  uint8_t* window(int rank) const;
  Mail& mail(int from, int to) const;

  // A counter of changes. To wait for a condition, read the counter, check the condition, and then wait while
  // the counter has that value.
  uint32_t change_count() const;
  void WaitForChange(uint32_t seen) const;  // waits for some milliseconds at most
  void NotifyChange() const;

 private:
  struct Header;
  struct Entry;
  SharedWorld(uint64_t id, int ranks, int rank) : id_(id), ranks_(ranks), rank_(rank) {}
  bool Map(std::string* error);
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
