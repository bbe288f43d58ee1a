// What copies and sets are called where their source gave no name: live captures, nsys exports.
#ifndef LOCKSTEP_AGGREGATOR_STORE_COPY_NAME_H_
#define LOCKSTEP_AGGREGATOR_STORE_COPY_NAME_H_

#include <string>

#include "capture/model/rank_rows.h"

namespace lockstep::store {

// "Memcpy HtoD (Pinned -> Device)", "Memset (Device)": PyTorch's profiler's names. `kind` is no kernel.
std::string CopyName(ActivityKind kind, const CopyDetail& detail);

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_COPY_NAME_H_
