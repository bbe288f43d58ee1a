// The jobs of a history, one row per job.
#ifndef LOCKSTEP_HISTORY_JOB_LIST_H_
#define LOCKSTEP_HISTORY_JOB_LIST_H_

#include <cstddef>
#include <string>
#include <vector>

#include "history/model.h"

namespace lockstep::history {

struct JobRow {
  std::string job;
  size_t captures = 0;
  JobTime first;     // begin of the oldest capture
  CaptureHead last;  // the newest capture
};

// `captures` are in the order of their time. Returns the job with the newest capture first.
std::vector<JobRow> JobRows(const std::vector<CaptureHead>& captures);

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_JOB_LIST_H_
