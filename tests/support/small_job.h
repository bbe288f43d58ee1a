// A small training job in memory, in which each part can be made longer. Tests of the rules for causes use
// its captures.
//
// The job is a pipeline of tensor- and data-parallel layers: all forward passes, then all backward passes.
// Gradients are reduced during the backward pass. Each rank has one host thread, which launches ahead and
// waits for its device at the end of each step. Optionally, the job has experts between two all-to-alls. The
// hooks state how much longer a part takes. A hook that is not set changes nothing.
#ifndef LOCKSTEP_TESTS_SUPPORT_SMALL_JOB_H_
#define LOCKSTEP_TESTS_SUPPORT_SMALL_JOB_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::tests {

enum class JobKernel : uint8_t { kMatrix, kAttention, kElement, kExperts, kOptimizer };

struct KernelAt {
  int rank, replica, stage, shard, step, microbatch;
  bool backward;
  JobKernel kernel;
  bool overlapped;  // starts during communication of its rank
};

struct CallAt {
  int rank, host, step;
  int place;  // index from 0; equal work has the same index in every step
  bool head;  // before the copy of the next batch
  bool end;   // after the wait for the step's work
};

struct TransferAt {
  std::vector<int> members;  // world ranks
  int step;
  bool between_hosts;
};

struct SmallJob {
  int data_parallel = 4, tensor_parallel = 2, pipeline = 1;
  int microbatches = 2, layers = 2, steps = 20, ranks_per_host = 8;
  bool experts = false;  // across the data-parallel ranks
  // Tokens of a rank's experts, relative to the mean. An exchange takes as long as for its busiest member.
  std::function<double(int rank)> tokens;
  double noise = 0.01;  // relative noise of every kernel and transfer
  uint64_t seed = 1;

  std::function<double(const KernelAt&)> kernel;      // factor
  std::function<int(const KernelAt&)> extra_runs;     // number of additional runs
  std::function<double(const TransferAt&)> transfer;  // factor
  std::function<double(int rank, int step)> copy;     // factor
  // Time by which the host is idle before the call.
  std::function<double(const CallAt&)> gap_us;
  // The API call in which the host spends that time.
  std::function<std::string(const CallAt&)> gap_call;
  bool loader_ranges =
      false;  // a range of the data loader around each idle time before the next batch's copy
  // Factor on all kernels of a rank: noise that neighbouring steps share.
  std::function<double(int rank, int step)> drift;

  int ranks() const { return data_parallel * tensor_parallel * pipeline; }
  int StageOf(int rank) const { return rank / (data_parallel * tensor_parallel); }
  int ReplicaOf(int rank) const { return rank / tensor_parallel % data_parallel; }
  int ShardOf(int rank) const { return rank % tensor_parallel; }
  int HostOf(int rank) const { return rank / ranks_per_host; }
};

// Calls capture::Finish(). All hosts have the same clock.
capture::Capture CaptureOf(const SmallJob& job);

}  // namespace lockstep::tests

#endif  // LOCKSTEP_TESTS_SUPPORT_SMALL_JOB_H_
