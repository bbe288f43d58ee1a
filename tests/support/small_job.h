// A small training job made in memory, any piece of which can be lengthened: captures on which the rules of
// causes are tested.
//
// Pipeline (all forward passes, then all backward passes) of tensor- and data-parallel layers; gradients are
// reduced beside the backward pass; one host thread per rank that launches ahead and waits for its device at
// the end of each step. Optionally experts with an all-to-all on both sides. The hooks say how much longer
// something takes; those that are not set change nothing.
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
  bool beside;  // starts while communication of its rank is going on
};

struct CallAt {
  int rank, host, step;
  int place;  // from 0; the same work has the same place in every step
  bool head;  // before the copy of the next batch
  bool end;   // after the step's work was waited for
};

struct TransferAt {
  std::vector<int> members;  // world ranks
  int step;
  bool between_hosts;
};

struct SmallJob {
  int data_parallel = 4, tensor_parallel = 2, pipeline = 1;
  int microbatches = 2, layers = 2, steps = 20, ranks_per_host = 8;
  bool experts = false;  // over the data-parallel ranks
  std::function<double(int rank)>
      tokens;  // that a rank's experts get, of the mean; an exchange lasts as long as the busiest member
  double noise = 0.01;  // of every kernel and transfer, relative
  uint64_t seed = 1;

  std::function<double(const KernelAt&)> kernel;      // factor
  std::function<int(const KernelAt&)> more;           // how many more times it is run
  std::function<double(const TransferAt&)> transfer;  // factor
  std::function<double(int rank, int step)> copy;     // factor
  std::function<double(const CallAt&)> gap_us;  // the host does nothing for so much longer before the call
  std::function<std::string(const CallAt&)> gap_call;  // and is in this call while it does
  std::function<double(int rank, int step)>
      drift;  // factor on all of a rank's kernels: noise that neighbours in time share

  int ranks() const { return data_parallel * tensor_parallel * pipeline; }
  int StageOf(int rank) const { return rank / (data_parallel * tensor_parallel); }
  int ReplicaOf(int rank) const { return rank / tensor_parallel % data_parallel; }
  int ShardOf(int rank) const { return rank % tensor_parallel; }
  int HostOf(int rank) const { return rank / ranks_per_host; }
};

// Finish()ed. Stamps of all hosts are of one clock.
store::Capture CaptureOf(const SmallJob& job);

}  // namespace lockstep::tests

#endif  // LOCKSTEP_TESTS_SUPPORT_SMALL_JOB_H_
