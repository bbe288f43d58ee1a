// Identities are distinct types, so that a rank, a stream and a string id cannot be mixed up.
//
// This header needs no C++ library at run time, because the injected client uses it.
#ifndef LOCKSTEP_BASE_IDS_H_
#define LOCKSTEP_BASE_IDS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace lockstep {

template <typename Tag, typename Rep>
class Id {
 public:
  using rep = Rep;
  constexpr Id() = default;
  constexpr explicit Id(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  constexpr auto operator<=>(const Id&) const = default;

  // Hash containers of absl and std use it.
  template <typename H>
  friend H AbslHashValue(H h, const Id& id) {
    return H::combine(static_cast<H&&>(h), id.value_);
  }

 private:
  Rep value_{};
};

// The place of a GPU process in the job's world, from 0.
using RankId = Id<struct RankTag, int32_t>;
// The CUDA ordinal in the process that made the record, and CUPTI's numbers of streams, contexts and
// correlations.
using DeviceId = Id<struct DeviceTag, uint32_t>;
using StreamId = Id<struct StreamTag, uint32_t>;
using ContextId = Id<struct ContextTag, uint32_t>;
using CorrelationId = Id<struct CorrelationTag, uint32_t>;
// The kernel's id of a host thread (gettid), or the number that a trace gives it.
using ThreadId = Id<struct ThreadTag, int64_t>;
// Index into a capture's string table. 0 is the unknown string.
using NameId = Id<struct NameTag, uint32_t>;
inline constexpr NameId kNoName{};
// A string of one client process, valid in one (incarnation, epoch); see wire/ring/record.h. 0 means no
// string.
using StringId = Id<struct StringTag, uint32_t>;

inline constexpr RankId kNoRank{-1};

}  // namespace lockstep

template <typename Tag, typename Rep>
struct std::hash<lockstep::Id<Tag, Rep>> {
  size_t operator()(const lockstep::Id<Tag, Rep>& id) const noexcept {
    return static_cast<size_t>(static_cast<uint64_t>(id.value()) * 0x9E3779B97F4A7C15ull);
  }
};

#endif  // LOCKSTEP_BASE_IDS_H_
