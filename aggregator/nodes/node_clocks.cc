#include "aggregator/nodes/node_clocks.h"

#include <algorithm>

namespace lockstep::aggregator {
namespace {

constexpr size_t kMostExchanges = 8192;  // per node: enough for minutes at the rate of a capture

Nanos RoundTrip(const capture::ClockExchange& e) { return (e.t4 - e.t1) - (e.t3 - e.t2); }

}  // namespace

void NodeClocks::Add(const std::string& node_id, const v1::ClockSamples& samples) {
  MutexLock lock(&mutex_);
  Exchanges& exchanges = exchanges_[node_id];
  for (const v1::ClockSample& s : samples.samples()) {
    const capture::ClockExchange exchange{HostTime(s.t1_ns()), JobTime(s.t2_ns()), JobTime(s.t3_ns()),
                                          HostTime(s.t4_ns()), MonoTime(s.monotonic_ns())};
    if (!exchange.valid()) continue;
    exchanges.push_back(exchange);
    if (exchanges.size() > kMostExchanges) exchanges.pop_front();
  }
}

std::vector<capture::ClockExchange> NodeClocks::Since(const std::string& node_id, JobTime from) const {
  MutexLock lock(&mutex_);
  std::vector<capture::ClockExchange> out;
  const auto it = exchanges_.find(node_id);
  if (it == exchanges_.end()) return out;
  for (const capture::ClockExchange& e : it->second) {
    if (e.t2 >= from) out.push_back(e);
  }
  return out;
}

Nanos NodeClocks::RoundTripP99(const std::string& node_id) const {
  std::vector<int64_t> trips;
  {
    MutexLock lock(&mutex_);
    const auto it = exchanges_.find(node_id);
    if (it == exchanges_.end()) return Nanos();
    // The newest exchanges describe the network's current state.
    constexpr size_t kNewest = 200;
    for (auto e = it->second.rbegin(); e != it->second.rend() && trips.size() < kNewest; ++e)
      trips.push_back(RoundTrip(*e).ns());
  }
  if (trips.empty()) return Nanos();
  const size_t at = trips.size() * 99 / 100;
  std::nth_element(trips.begin(), trips.begin() + static_cast<ptrdiff_t>(at), trips.end());
  // The limit protects T0 from a hostile or stepped clock.
  return std::clamp(Nanos(trips[at]), Nanos(), Nanos::Seconds(1));
}

void NodeClocks::Describe(const std::string& node_id, v1::DaemonStatus& status) const {
  constexpr size_t kNewest = 64;
  MutexLock lock(&mutex_);
  const auto it = exchanges_.find(node_id);
  if (it == exchanges_.end()) return;
  const capture::ClockExchange* best = nullptr;
  size_t seen = 0;
  for (auto e = it->second.rbegin(); e != it->second.rend() && seen < kNewest; ++e, ++seen) {
    if (best == nullptr || RoundTrip(*e) < RoundTrip(*best)) best = &*e;
  }
  if (best == nullptr) return;
  status.set_clock_offset_ns(((best->t1.ns() - best->t2.ns()) + (best->t4.ns() - best->t3.ns())) / 2);
  status.set_clock_bound_ns(std::max<int64_t>(RoundTrip(*best).ns() / 2, 1));
}

}  // namespace lockstep::aggregator
