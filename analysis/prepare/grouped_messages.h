// Kernels of several messages, which NCCL launches for grouped sends and receives. Such a kernel ends when
// the last of its messages has arrived, so it waits for the latest of the partners that it needs.
//
// For one thread. The references outlive this.
#ifndef LOCKSTEP_ANALYSIS_PREPARE_GROUPED_MESSAGES_H_
#define LOCKSTEP_ANALYSIS_PREPARE_GROUPED_MESSAGES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "analysis/prepare/collectives.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

class GroupedMessages {
 public:
  GroupedMessages(const capture::Capture& capture, const capture::Matches& matches,
                  const capture::ClockModel& clock);

  // True if the member's kernel has several messages and nothing else.
  bool Has(const capture::Member& m) const { return KernelOf(m) != nullptr; }
  // True if the kernel cannot have waited for another message after `partner_start`, the start of this
  // message's partner.
  bool OthersCameBefore(const capture::Member& m, JobTime partner_start) const;

  // Sets the parts of all rows of these kernels, [rank index][collective]. `is_rendezvous`: true if the
  // sender of the message waits for its receiver.
  void Time(const std::function<bool(const capture::Instance& message)>& is_rendezvous,
            std::vector<std::vector<Part>>& parts);
  // After Time(): true if this message's partner is the one that the kernel waited for. Has(m) is true.
  bool WaitedFor(const capture::Member& m) const { return KernelOf(m)->awaited_row == m.collective; }

 private:
  struct Kernel {
    uint32_t rank_index;
    uint32_t first, end;  // rows of RankData::collectives
    // Starts of the partners' kernels: the latest one, its row, and the latest one of the other rows.
    JobTime latest = JobTime::Min(), second = JobTime::Min();
    uint32_t latest_row = capture::kNone;
    bool partners_known = true;
    // kNone: it waited for none, or its partners' clocks are unknown.
    uint32_t awaited_row = capture::kNone;
  };

  void AddKernel(Kernel kernel);
  const Kernel* KernelOf(const capture::Member& m) const;
  const capture::Member* Partner(const capture::Member& m) const;
  bool ToItself(const capture::Member& m) const;

  const capture::Capture& capture_;
  const capture::Matches& matches_;
  const capture::ClockModel& clock_;
  std::vector<Kernel> kernels_;
  std::vector<std::vector<uint32_t>> kernel_of_;  // [rank index][row]: into kernels_ or kNone; empty: none
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_PREPARE_GROUPED_MESSAGES_H_
