// Gives communicators to the communication kernels whose source named none.
//
// Where others on the same stream have one (a window that opened before the kernel was launched, a lost
// description), it is theirs. The rest goes to communicator_inference.h. Call once after store::Finish and
// before anything reads the capture; a second call changes nothing. What is inferred has
// GroupOrigin::kInferred; what fits nowhere stays in the group that Finish assumed.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_INFER_GROUPS_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_INFER_GROUPS_H_

#include "capture/model/capture.h"

namespace lockstep::align {

void InferGroups(store::Capture& capture);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_INFER_GROUPS_H_
