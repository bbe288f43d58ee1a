// RpcCounts counts the calls that this aggregator has answered, by method and code.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_RPC_COUNTS_H_
#define LOCKSTEP_AGGREGATOR_INGEST_RPC_COUNTS_H_

#include <grpcpp/support/status.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/metrics/page.h"

namespace lockstep::aggregator {

// kStream and kPing belong to Ingest, the others to Control. A stream counts when it ends.
enum class RpcMethod : uint8_t { kStream, kPing, kStatus, kTrace, kStop, kFetch, kWatch, kProgress, kRecord };

// Thread-safe.
class RpcCounts {
 public:
  // Counts the call and returns its status, which the method returns to gRPC.
  grpc::Status Ended(RpcMethod method, grpc::Status status);
  // Writes OK and UNAUTHENTICATED of each method, and other codes that occurred.
  void Write(const metrics::Page::Family& family) const;

 private:
  static constexpr size_t kMethods = 9;
  static constexpr size_t kCodes = 17;
  std::array<std::array<std::atomic<uint64_t>, kCodes>, kMethods> counts_{};
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_INGEST_RPC_COUNTS_H_
