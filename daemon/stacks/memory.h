// Memory of another process, which may end or change at any time. Implemented by: MemoryFile, and a map in
// tests.
#ifndef LOCKSTEP_DAEMON_STACKS_MEMORY_H_
#define LOCKSTEP_DAEMON_STACKS_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/fd.h"

namespace lockstep::daemon {

// One thread.
class Memory {
 public:
  virtual ~Memory() = default;
  // Copies `size` bytes. Returns false if a part of them is not mapped, or the process has ended.
  virtual bool Read(uint64_t address, void* to, size_t size) const = 0;

  template <typename T>
  std::optional<T> Get(uint64_t address) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    if (!Read(address, &value, sizeof(value))) return std::nullopt;
    return value;
  }
  // Returns 0 if it cannot be read.
  uint64_t Pointer(uint64_t address) const { return Get<uint64_t>(address).value_or(0); }
};

// Reads /proc/<pid>/mem. The right is checked when the file is opened, so a process that has given up its
// rights may still read. Each page is read once, so the object shows the memory of one moment or a little
// later. It holds at most kMostPages.
class MemoryFile final : public Memory {
 public:
  static constexpr size_t kMostPages = 4096;

  explicit MemoryFile(Fd file) : file_(std::move(file)) {}
  bool Read(uint64_t address, void* to, size_t size) const override;

 private:
  static constexpr uint64_t kPageBytes = 4096;
  using Page = std::array<char, kPageBytes>;

  // Returns null if it is not mapped.
  const Page* Find(uint64_t number) const;

  const Fd file_;
  mutable absl::flat_hash_map<uint64_t, std::unique_ptr<Page>> pages_;  // null: not mapped
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_STACKS_MEMORY_H_
