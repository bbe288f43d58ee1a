#include "history/job_list.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep::history {

std::vector<JobRow> JobRows(const std::vector<CaptureHead>& captures) {
  std::map<std::string, JobRow> by_name;
  for (const CaptureHead& capture : captures) {
    JobRow& row = by_name[capture.job];
    if (row.captures++ == 0) row.first = capture.captured;
    row.job = capture.job;
    row.last = capture;
  }
  std::vector<JobRow> rows;
  for (auto& [name, row] : by_name) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const JobRow& a, const JobRow& b) { return a.last.captured > b.last.captured; });
  return rows;
}

}  // namespace lockstep::history
