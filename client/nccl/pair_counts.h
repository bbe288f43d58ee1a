// Numbers the messages of each pair of ranks in a communicator, so that both sides give a message the same
// number. Any thread, without locks. Beyond kPairs pairs, messages have the number 0.
#ifndef LOCKSTEP_CLIENT_NCCL_PAIR_COUNTS_H_
#define LOCKSTEP_CLIENT_NCCL_PAIR_COUNTS_H_

#include <atomic>
#include <cstdint>

namespace lockstep::client {

class PairCounts {
 public:
  // Returns the number of the next message, from 0. `direction` differs for messages to and from the peer.
  uint64_t Next(uint64_t communicator, int32_t peer, uint16_t direction) {
    uint64_t key = (communicator ^ static_cast<uint64_t>(static_cast<uint32_t>(peer)) << 1 ^ direction) *
                   0x9E3779B97F4A7C15ull;
    key |= 1;  // 0 means a free place
    for (uint32_t probe = 0; probe < kPairs; ++probe) {
      Count& count = counts_[((key >> 32 ^ key) + probe) & (kPairs - 1)];
      uint64_t there = count.key.load(std::memory_order_relaxed);
      if (there == 0 && count.key.compare_exchange_strong(there, key)) there = key;
      if (there == key) return count.next.fetch_add(1, std::memory_order_relaxed);
    }
    return 0;
  }
  // All numbers start again. No message may be numbered at the same time.
  void Reset() {
    for (Count& count : counts_) {
      count.key.store(0, std::memory_order_relaxed);
      count.next.store(0, std::memory_order_relaxed);
    }
  }

 private:
  static constexpr uint32_t kPairs = 4096;  // a power of two

  struct Count {
    std::atomic<uint64_t> key{0};  // of (communicator, peer, direction); 0: free
    std::atomic<uint64_t> next{0};
  };
  Count counts_[kPairs];
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NCCL_PAIR_COUNTS_H_
