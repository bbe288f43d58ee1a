// Gives communicators to the communication kernels whose source named none.
//
// A kernel takes the communicator of other kernels on its stream, where there are some. It may have none of
// its own because its window opened after its launch, or because its description was lost.
// communicator_inference.h infers the rest. Call once after capture::Finish and before any reader of the
// capture; a second call changes nothing. Inferred groups have GroupOrigin::kInferred. Kernels that fit no
// communicator stay in the group that Finish assumed.
#ifndef LOCKSTEP_CAPTURE_INFER_INFER_GROUPS_H_
#define LOCKSTEP_CAPTURE_INFER_INFER_GROUPS_H_

#include "capture/model/capture.h"

namespace lockstep::capture {

void InferGroups(capture::Capture& capture);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_INFER_INFER_GROUPS_H_
