// Names of copies and sets whose source gives none: live captures and nsys exports.
#ifndef LOCKSTEP_CAPTURE_MODEL_COPY_NAME_H_
#define LOCKSTEP_CAPTURE_MODEL_COPY_NAME_H_

#include <string>

#include "capture/model/rank_rows.h"

namespace lockstep::capture {

// Gives the names of PyTorch's profiler: "Memcpy HtoD (Pinned -> Device)", "Memset (Device)". `kind` must not
// be kKernel.
std::string CopyName(ActivityKind kind, const CopyDetail& detail);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_COPY_NAME_H_
