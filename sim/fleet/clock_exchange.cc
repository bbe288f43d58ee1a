#include "sim/fleet/clock_exchange.h"

#include <chrono>
#include <utility>

#include "base/read_clock.h"
#include "base/rpc/channel.h"

namespace lockstep::sim {
namespace {

constexpr Nanos kPingWithin = Nanos::Seconds(1);

}  // namespace

void ClockExchange::Burst(uint32_t exchanges, Nanos pause) {
  burst_left_ = exchanges;
  pause_ = pause;
  if (pausing_) return alarm_.Cancel();  // OnPaused comes at once
  Ping();
}

void ClockExchange::Ping() {
  if (stopped_ || pinging_) return;
  pinging_ = true;
  context_ = std::make_unique<grpc::ClientContext>();
  rpc::Prepare(*context_, token_, kPingWithin);
  v1::PingRequest request;
  sent_at_ = ReadRealtime();
  request.set_t1_ns(sent_at_.ns());
  reply_.Clear();
  call_ = stub_.AsyncPing(context_.get(), request, &queue_);
  call_->Finish(&reply_, &status_, pinged_);
}

bool ClockExchange::OnPinged() {
  pinging_ = false;
  if (status_.ok()) {
    v1::ClockSample& sample = *samples_.add_samples();
    sample.set_t1_ns(sent_at_.ns());
    sample.set_t2_ns(reply_.t2_ns());
    sample.set_t3_ns(reply_.t3_ns());
    sample.set_t4_ns(ReadRealtime().ns());
    sample.set_monotonic_ns(ReadMonotonic().ns());
  }
  if (burst_left_ > 0 && --burst_left_ > 0) {
    Ping();
    return false;
  }
  if (!stopped_) {
    pausing_ = true;
    alarm_.Set(&queue_, std::chrono::system_clock::now() + std::chrono::nanoseconds(pause_.ns()), paused_);
  }
  return samples_.samples_size() > 0;
}

void ClockExchange::OnPaused() {
  pausing_ = false;
  Ping();
}

void ClockExchange::Stop() {
  stopped_ = true;
  if (context_ != nullptr) context_->TryCancel();
  if (pausing_) alarm_.Cancel();
}

v1::ClockSamples ClockExchange::TakeSamples() { return std::exchange(samples_, {}); }

}  // namespace lockstep::sim
