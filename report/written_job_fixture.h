// Test helper: a small random job, written record by record. It keeps facts that no record has, such as the
// step of an operation and the members of a collective. All stamps are whole microseconds of one clock, so
// that a test can count every number of the report.
#ifndef LOCKSTEP_REPORT_WRITTEN_JOB_FIXTURE_H_
#define LOCKSTEP_REPORT_WRITTEN_JOB_FIXTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::report {

// The interval [start, end), in microseconds.
struct Stretch {
  int64_t start = 0, end = 0;
  int64_t length() const { return end - start; }
};

// One record of a device.
struct WrittenOp {
  Stretch time;
  capture::ActivityKind kind = capture::ActivityKind::kKernel;
  bool communication = false;
  bool tensor_cores = false;
  int step = 0;           // the step that launched it
  double blocks = -1;     // per multiprocessor; negative: not recorded
  double occupancy = -1;  // 0..1; negative: not recorded
};

struct WrittenRank {
  std::vector<WrittenOp> ops;
  std::vector<Stretch> steps;  // ranges of the steps
  std::vector<Stretch> calls, loaders, operators;
};

struct WrittenCollective {
  int group = 0;
  capture::CollectiveOp op = capture::CollectiveOp::kAllReduce;
  int64_t bytes = -1;
  int root = -1;  // rank of the job; negative: all members need all members
  int step = 0;
  std::vector<int> ranks;
  std::vector<Stretch> times;  // one per entry of `ranks`
};

struct WrittenJob {
  std::vector<std::vector<int>> groups;  // members; the first group holds all ranks
  std::vector<std::string> names;        // of the groups
  std::vector<WrittenRank> ranks;
  std::vector<WrittenCollective> collectives;
  int steps =
      0;  // number of written steps; the report leaves out the first one, because it has no previous step
  capture::Capture capture;
};

// Writes 4 to 16 ranks and 5 to 8 steps: compute kernels, copies and sets, collectives of all ranks and of
// neighbours, some of them beside kernels. Some ranks come late into their steps. Jobs of odd seeds have no
// host calls. The seed determines the whole job.
WrittenJob WriteJob(uint64_t seed);

}  // namespace lockstep::report

#endif  // LOCKSTEP_REPORT_WRITTEN_JOB_FIXTURE_H_
