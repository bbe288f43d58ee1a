// Asks NCCL's RAS about jobs that hang, and about jobs whose ranks keep no progress.
#ifndef LOCKSTEP_AGGREGATOR_NOTICE_RAS_LOOKS_H_
#define LOCKSTEP_AGGREGATOR_NOTICE_RAS_LOOKS_H_

#include "aggregator/notice/hang_examination.h"
#include "lockstep/v1/progress.pb.h"

namespace lockstep::aggregator {

// Adds RAS's view to those jobs that `examination` selects for it. One rank per job is asked, because RAS
// covers all nodes. `last` is the last look, which names the processes. A look that fails is a problem of the
// report, not of the examination, so the explanation stays.
void AddRas(const HangExamination& examination, const v1::ProgressReply& last, ExplainedJobs& explained);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NOTICE_RAS_LOOKS_H_
