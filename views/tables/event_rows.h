// Columns that all tables of recorded rows share: the rank and the time of a row. Starts are on the job's
// clock; durations are on the rank's own clock.
#ifndef LOCKSTEP_VIEWS_TABLES_EVENT_ROWS_H_
#define LOCKSTEP_VIEWS_TABLES_EVENT_ROWS_H_

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "views/tables/table_source.h"

namespace lockstep::views {

// A row of one of a rank's tables.
template <typename T>
struct Of {
  const Input* in;
  const capture::RankData* rank;
  const T* row;

  JobTime At(HostTime t) const { return in->analysis.clock.ToJob(rank->host, t); }
  std::optional<std::string_view> Text(NameId id) const {
    return id == kNoName ? std::nullopt : std::optional(in->capture.Text(id));
  }
};

template <typename T, std::vector<T> capture::RankData::*table>
uint64_t CountOf(const Input& in) {
  uint64_t rows = 0;
  for (const capture::RankData& rank : in.capture.ranks) rows += (rank.*table).size();
  return rows;
}

template <typename T, std::vector<T> capture::RankData::*table>
void EachOf(const Input& in, RowSink<Of<T>>& out) {
  for (const capture::RankData& rank : in.capture.ranks) {
    for (const T& row : rank.*table) {
      if (out.failed()) return;
      out.Add({&in, &rank, &row});
    }
  }
}

inline std::optional<uint32_t> CorrelationOrNull(CorrelationId id) {
  return id.value() == 0 ? std::nullopt : std::optional(id.value());
}

// Adds the first columns of every table here: the rank of the row.
template <typename R>
std::vector<ColumnOf<R>> WithRank(std::vector<ColumnOf<R>> more) {
  std::vector<ColumnOf<R>> columns = {
      Make<R>("rank", "", "world rank", [](const R& r) { return r.rank->rank; }),
      Make<R>("device", "", "CUDA ordinal in its process", [](const R& r) { return r.rank->device; }),
      Make<R>("incarnation", "", "2 and higher: the rank was restarted",
              [](const R& r) { return r.rank->incarnation; }),
  };
  std::move(more.begin(), more.end(), std::back_inserter(columns));
  return columns;
}

// The time of the row.
template <typename R>
ColumnOf<R> Start() {
  return Make<R>("start_ns", "ns", "Unix time on the job's clock",
                 [](const R& r) { return r.At(r.row->start); });
}
template <typename R>
ColumnOf<R> Duration() {
  return Make<R>("duration_ns", "ns", "duration on the rank's own clock",
                 [](const R& r) { return r.row->end - r.row->start; });
}

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_TABLES_EVENT_ROWS_H_
