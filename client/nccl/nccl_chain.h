// Chains another profiler plugin behind ours. NCCL loads exactly one plugin, so ours loads the other
// ("chained") one and forwards its events.
//
// NCCL calls us with one version of the ABI. The chained plugin is used only if it has a table of the same
// version. It receives NCCL's own activation word. Without a capture the word is exactly as that plugin wrote
// it, and in a capture our bits are added (NcclSource::Ask). The plugin receives the event types that it
// requested and their ancestors, as it would alone.
//
// A handle that NCCL passes back stands for two handles. It has three forms, which differ in the two highest
// bits. No address of a process has these bits.
//   bit 62: ours alone
//   bit 63: a pair in a fixed pool
//   neither: the chained plugin's own handle
// The chained plugin's event is never dropped. If the pool is full, ours is dropped and counted.
//
// A pair is reused only after its stop, and as late as the pool allows, because children name their parent
// after the parent's stop. A child that comes after the reuse has no parent in either plugin.
//
// Threads: NCCL's, any of them. Load runs at a communicator's init, not in events.
#ifndef LOCKSTEP_CLIENT_NCCL_NCCL_CHAIN_H_
#define LOCKSTEP_CLIENT_NCCL_NCCL_CHAIN_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lockstep::client {

class NcclChain {
 public:
  constexpr NcclChain() = default;

  // `name` is the plugin that NCCL_PROFILER_PLUGIN named before us: a path, or NCCL's short name for
  // libnccl-profiler-NAME.so. Null means none. Call it before NCCL can find the tables.
  void SetName(const char* name) { name_ = name; }
  // Sets a table instead of a library's, for tests.
  void SetTable(int version, const void* table) {
    given_version_ = version;
    given_table_ = table;
  }
  bool wanted() const { return name_ != nullptr || given_table_ != nullptr; }

  // Returns the chained plugin's ncclProfiler_v<version>, which is looked up once per process. Returns null
  // if the plugin has none, cannot be loaded, or is `own`. Several threads may call it at once.
  const void* Table(int version, const void* own);
  // Returns the table in use if it has this version. It is null before the first init. Events look it up
  // here.
  const void* InUse(int version) const {
    return version_.load(std::memory_order_acquire) == version ? table_ : nullptr;
  }
  int version() const { return version_.load(std::memory_order_acquire); }

  // ---- handles ----
  struct Pair {
    void* ours = nullptr;
    void* chained = nullptr;
  };
  // Returns null if there is no free place.
  void* NewPair(const Pair& pair);
  // Call it only for a pair that NCCL has not received yet.
  void SetOurs(const void* handle, void* ours);
  // Returns both handles behind any handle that NCCL has received.
  Pair Split(const void* handle) const;
  // Does the same as Split; the pair may then be reused.
  Pair Stop(const void* handle);
  // Returns the handle of an event that only our plugin has.
  static void* Ours(void* handle) {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(handle) | kOurs);
  }
  // Returns whether the chained plugin's handle can be passed on unchanged.
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
    std::atomic<void*> chained{nullptr};
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

#endif  // LOCKSTEP_CLIENT_NCCL_NCCL_CHAIN_H_
