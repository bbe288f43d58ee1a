// WriteProgress: the function through which a writer reports its progress.
#ifndef LOCKSTEP_FORMATS_COMMON_WRITE_PROGRESS_H_
#define LOCKSTEP_FORMATS_COMMON_WRITE_PROGRESS_H_

#include <cstdint>
#include <functional>

namespace lockstep::formats {

// Called from time to time from the writing thread, in the writer's own units. It may be empty.
using WriteProgress = std::function<void(uint64_t done, uint64_t total)>;

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_COMMON_WRITE_PROGRESS_H_
