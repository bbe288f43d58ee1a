// Another profiler plugin behind ours: NCCL loads exactly one, so ours loads the other's and hands it its
// events.
//
// NCCL calls us with one version of the ABI; the other is used if it has a table of the same version, and not
// otherwise. It gets NCCL's own activation word: while nothing is captured the word is exactly as the other
// wrote it, and in a capture ours are added (NcclSource::Ask). It sees the types it asked for and their
// ancestors, as it would alone.
//
// A handle that NCCL passes back stands for two. Three forms, told apart by the two highest bits, which no
// address of a process has: ours alone (bit 62), a pair in a fixed pool (bit 63), the other's own as it is.
// The other's event is never given up: when the pool is full ours is, and counted. A pair is reused only
// after its stop and as late as the pool allows, because children name their parent after the parent stopped;
// a child that comes later still has no parent for either.
//
// Threads: any, as NCCL calls; Load at a communicator's init, not in events.
#ifndef LOCKSTEP_CLIENT_NCCL_CHAIN_H_
#define LOCKSTEP_CLIENT_NCCL_CHAIN_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lockstep::client {

class NcclChain {
 public:
  constexpr NcclChain() = default;

  // What NCCL_PROFILER_PLUGIN named before us: a path, or NCCL's short name for libnccl-profiler-NAME.so.
  // Null: none. Call before NCCL can find the tables.
  void SetName(const char* name) { name_ = name; }
  // For tests: a table in place of a library's.
  void SetTable(int version, const void* table) {
    given_version_ = version;
    given_table_ = table;
  }
  bool wanted() const { return name_ != nullptr || given_table_ != nullptr; }

  // The other's ncclProfiler_v<version>, found once per process; null where it has none, cannot be loaded, or
  // is `own`. May be called from several threads at once.
  const void* Table(int version, const void* own);
  // The table in use, with its version, as events look it up; null before the first init.
  const void* InUse(int version) const {
    return version_.load(std::memory_order_acquire) == version ? table_ : nullptr;
  }
  int version() const { return version_.load(std::memory_order_acquire); }

  // ---- handles ----
  struct Pair {
    void* ours = nullptr;
    void* theirs = nullptr;
  };
  // Null: no place.
  void* NewPair(const Pair& pair);
  // Of a pair that has not gone out yet.
  void SetOurs(const void* handle, void* ours);
  // Both halves of any handle that went out.
  Pair Split(const void* handle) const;
  // As Split; a pair may be reused from now on.
  Pair Stop(const void* handle);
  // A handle of ours alone.
  static void* Ours(void* handle) {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(handle) | kOurs);
  }
  // Whether the other's handle can go out as it is.
  static bool IsPlain(const void* handle) {
    return (reinterpret_cast<uintptr_t>(handle) & (kOurs | kPair)) == 0;
  }

 private:
  static constexpr uintptr_t kOurs = uintptr_t{1} << 62;
  static constexpr uintptr_t kPair = uintptr_t{1} << 63;
  static constexpr uint32_t kPlaceBits = 14;
  static constexpr uint32_t kPlaces = 1u << kPlaceBits;
  static constexpr uint32_t kProbes = 16;

  struct Place {
    std::atomic<uint64_t> use{0};  // serial << 1 | open
    std::atomic<void*> ours{nullptr};
    std::atomic<void*> theirs{nullptr};
  };
  Place* Find(const void* handle, uint64_t* serial) const;
  void Load(int version, const void* own);

  enum State : uint32_t { kNot, kLoading, kLoaded };
  const char* name_ = nullptr;
  int given_version_ = 0;
  const void* given_table_ = nullptr;
  std::atomic<uint32_t> state_{kNot};
  const void* table_ = nullptr;
  std::atomic<int> version_{0};
  std::atomic<uint64_t> next_{1};
  Place* places_ = nullptr;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NCCL_CHAIN_H_
