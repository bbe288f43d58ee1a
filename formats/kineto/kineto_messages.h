// Describes communication kernels without arguments by the rows that PyTorch writes on the host.
//
// PyTorch gives a kernel of grouped sends and receives no arguments. Each of its messages has a row
// `record_param_comms` on the thread that launches the kernel, between the previous launch and this one.
#ifndef LOCKSTEP_FORMATS_KINETO_KINETO_MESSAGES_H_
#define LOCKSTEP_FORMATS_KINETO_KINETO_MESSAGES_H_

#include "formats/kineto/kineto_file.h"

namespace lockstep::formats {

// Gives the collectives of `file.announced` to the kernels that they announce. Such a kernel may then have
// several collectives, in the order of the rows. Rows without a kernel are left out.
void AttachAnnounced(KinetoFile& file);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_KINETO_KINETO_MESSAGES_H_
