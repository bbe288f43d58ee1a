// Copies one field of a table that another thread may write.
#ifndef LOCKSTEP_CLIENT_NCCL_COPY_FIELD_H_
#define LOCKSTEP_CLIENT_NCCL_COPY_FIELD_H_

#include <atomic>

namespace lockstep::client {

// The order with other fields is the caller's matter: see wire/ring/progress.h.
template <typename T>
void CopyField(const std::atomic<T>& from, std::atomic<T>& to) {
  to.store(from.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NCCL_COPY_FIELD_H_
