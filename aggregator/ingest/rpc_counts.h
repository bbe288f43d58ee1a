// Calls that this aggregator has answered, by method and code.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_RPC_COUNTS_H_
#define LOCKSTEP_AGGREGATOR_INGEST_RPC_COUNTS_H_

#include <grpcpp/support/status.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/metrics/page.h"

namespace lockstep::ingest {

// kStream and kPing are Ingest's, the others Control's. A stream counts when it ends.
enum class RpcMethod : uint8_t { kStream, kPing, kStatus, kTrace, kStop, kFetch, kWatch };

// Any thread.
class RpcCounts {
 public:
  // Counts the call and returns its status, to be the method's last word.
  grpc::Status Ended(RpcMethod method, grpc::Status status);
  // OK and UNAUTHENTICATED of each method, and other codes that were given.
  void Write(const metrics::Page::Family& family) const;

 private:
  static constexpr size_t kMethods = 7;
  static constexpr size_t kCodes = 17;
  std::array<std::array<std::atomic<uint64_t>, kCodes>, kMethods> counts_{};
};

}  // namespace lockstep::ingest

#endif  // LOCKSTEP_AGGREGATOR_INGEST_RPC_COUNTS_H_
