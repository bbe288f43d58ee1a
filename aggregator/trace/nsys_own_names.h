// Words in the LOCKSTEP_ tables of an nsys export, for the writer and the reader of them.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_NSYS_OWN_NAMES_H_
#define LOCKSTEP_AGGREGATOR_TRACE_NSYS_OWN_NAMES_H_

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace lockstep::trace::nsys {

// LOCKSTEP_META.name; the last two may stand in several rows.
inline constexpr std::string_view kMetaVersion = "VERSION";
inline constexpr std::string_view kMetaId = "CAPTURE_ID";
inline constexpr std::string_view kMetaJob = "JOB";
inline constexpr std::string_view kMetaSource = "SOURCE";
inline constexpr std::string_view kMetaWorldSize = "WORLD_SIZE";
inline constexpr std::string_view kMetaFirstStep = "FIRST_STEP";
inline constexpr std::string_view kMetaSteps = "STEPS";
inline constexpr std::string_view kMetaMissingRank = "MISSING_RANK";
inline constexpr std::string_view kMetaNote = "NOTE";

// By the value of store::GroupOrigin, store::MatchSource and store::RangeKind.
inline constexpr std::array<std::string_view, 3> kOriginNames = {"stated", "assumed", "inferred"};
inline constexpr std::array<std::string_view, 4> kMatchNames = {"nccl_seq", "pg_seq", "graph", "order"};
inline constexpr std::array<std::string_view, 3> kRangeNames = {"user", "step", "operator"};

// LOCKSTEP_HOST_TIME.kind
inline constexpr std::string_view kOperators = "operators";
inline constexpr std::string_view kDataLoader = "data_loader";

template <size_t kCount, typename Enum>
constexpr std::string_view NameOf(const std::array<std::string_view, kCount>& names, Enum value) {
  const auto place = static_cast<size_t>(value);
  return place < kCount ? names[place] : std::string_view();
}

template <typename Enum, size_t kCount>
constexpr std::optional<Enum> ValueOf(const std::array<std::string_view, kCount>& names,
                                      std::string_view name) {
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace lockstep::trace::nsys

#endif  // LOCKSTEP_AGGREGATOR_TRACE_NSYS_OWN_NAMES_H_
