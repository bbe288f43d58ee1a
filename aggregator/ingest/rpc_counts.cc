#include "aggregator/ingest/rpc_counts.h"

namespace lockstep::aggregator {
namespace {

constexpr const char* kMethodNames[] = {"Ingest.Stream", "Ingest.Ping",      "Control.Status",
                                        "Control.Trace", "Control.Stop",     "Control.Fetch",
                                        "Control.Watch", "Control.Progress", "Control.Record"};
// Indexed by code number, in gRPC's spelling.
constexpr const char* kCodeNames[] = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

}  // namespace

grpc::Status RpcCounts::Ended(RpcMethod method, grpc::Status status) {
  const auto code = static_cast<size_t>(status.error_code());
  constexpr auto kUnknown = static_cast<size_t>(grpc::StatusCode::UNKNOWN);
  counts_[static_cast<size_t>(method)][code < kCodes ? code : kUnknown].fetch_add(1,
                                                                                  std::memory_order_relaxed);
  return status;
}

void RpcCounts::Write(const metrics::Page::Family& family) const {
  for (size_t method = 0; method < kMethods; ++method) {
    for (size_t code = 0; code < kCodes; ++code) {
      const uint64_t count = counts_[method][code].load(std::memory_order_relaxed);
      if (count == 0 && code != grpc::StatusCode::OK && code != grpc::StatusCode::UNAUTHENTICATED) continue;
      family.Count(count, {{"method", kMethodNames[method]}, {"code", kCodeNames[code]}});
    }
  }
}

}  // namespace lockstep::aggregator
