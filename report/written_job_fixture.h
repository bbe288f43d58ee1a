// For tests: a small random job that is written record by record, with what no record says kept beside it:
// which step an operation belongs to, who met whom. All stamps are whole microseconds of one clock, so
// whatever the report says can be counted out.
#ifndef LOCKSTEP_AGGREGATOR_REPORT_WRITTEN_JOB_H_
#define LOCKSTEP_AGGREGATOR_REPORT_WRITTEN_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::report {

// [start, end), microseconds.
struct Stretch {
  int64_t start = 0, end = 0;
  int64_t length() const { return end - start; }
};

// One record of a device.
struct WrittenOp {
  Stretch time;
  store::ActivityKind kind = store::ActivityKind::kKernel;
  bool communication = false;
  bool tensor_cores = false;
  int step = 0;           // that launched it
  double blocks = -1;     // per multiprocessor; negative: not recorded
  double occupancy = -1;  // 0..1; negative: not recorded
};

struct WrittenRank {
  std::vector<WrittenOp> ops;
  std::vector<Stretch> steps;  // the ranges, by step
  std::vector<Stretch> calls, loaders, operators;
};

struct WrittenCollective {
  int group = 0;
  store::CollectiveOp op = store::CollectiveOp::kAllReduce;
  int64_t bytes = -1;
  int root = -1;  // rank of the job; negative: everybody needs everybody
  int step = 0;
  std::vector<int> ranks;
  std::vector<Stretch> times;  // as ranks
};

struct WrittenJob {
  std::vector<std::vector<int>> groups;  // members; 0 is all ranks
  std::vector<std::string> names;        // of the groups
  std::vector<WrittenRank> ranks;
  std::vector<WrittenCollective> collectives;
  int steps = 0;  // written; nothing leads into the first one, so the report leaves it out
  store::Capture capture;
};

// 4 to 16 ranks, 5 to 8 steps: compute kernels, copies and sets, collectives of all and of neighbours, some
// of them beside the kernels; ranks that come late into their steps. Every other seed has no host calls. All
// that is drawn follows from the seed.
WrittenJob WriteJob(uint64_t seed);

}  // namespace lockstep::report

#endif  // LOCKSTEP_AGGREGATOR_REPORT_WRITTEN_JOB_H_
