// ClockExchange makes a daemon's clock exchanges with the aggregator: a burst, then one after each pause.
//
// Its daemon guards it with a mutex, and passes it the completions of its two tags.
#ifndef LOCKSTEP_SIM_FLEET_CLOCK_EXCHANGE_H_
#define LOCKSTEP_SIM_FLEET_CLOCK_EXCHANGE_H_

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>

#include "base/rpc/token.h"
#include "base/time.h"
#include "lockstep/v1/ingest.grpc.pb.h"

namespace lockstep::sim {

class ClockExchange {
 public:
  // All references outlive this. `pinged` and `paused` are the tags of its completions in `queue`.
  ClockExchange(v1::Ingest::Stub& stub, const rpc::Token& token, grpc::CompletionQueue& queue, void* pinged,
                void* paused)
      : stub_(stub), token_(token), queue_(queue), pinged_(pinged), paused_(paused) {}

  // Begins a burst, and waits `pause` between the exchanges behind it.
  void Burst(uint32_t exchanges, Nanos pause);
  // An exchange was answered, or failed. Returns true if there are samples to send.
  bool OnPinged();
  void OnPaused();
  // No exchange begins any more. One completion of each tag may still come.
  void Stop();

  // Returns the samples since the last call.
  v1::ClockSamples TakeSamples();

 private:
  void Ping();

  v1::Ingest::Stub& stub_;
  const rpc::Token& token_;
  grpc::CompletionQueue& queue_;
  void* const pinged_;
  void* const paused_;
  uint32_t burst_left_ = 0;
  Nanos pause_;
  bool pinging_ = false;
  bool pausing_ = false;
  bool stopped_ = false;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::PingReply>> call_;
  v1::PingReply reply_;
  grpc::Status status_;
  grpc::Alarm alarm_;
  HostTime sent_at_;
  v1::ClockSamples samples_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_FLEET_CLOCK_EXCHANGE_H_
