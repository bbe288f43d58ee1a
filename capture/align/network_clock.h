// Estimates a host's clock from its daemon's exchanges with the aggregator, whose clock is then the job's.
#ifndef LOCKSTEP_CAPTURE_ALIGN_NETWORK_CLOCK_H_
#define LOCKSTEP_CAPTURE_ALIGN_NETWORK_CLOCK_H_

#include <optional>
#include <span>

#include "capture/align/clock_model.h"
#include "capture/model/capture.h"

namespace lockstep::capture {

// nullopt: no exchange is usable. `window` is the capture's window on this host. If REALTIME was stepped,
// only the side with more exchanges is fitted, and a step inside the window widens the bound by its size.
std::optional<HostClock> ClockFromNetwork(std::span<const capture::ClockExchange> exchanges,
                                          HostInterval window);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_ALIGN_NETWORK_CLOCK_H_
