// A host's clock from its daemon's exchanges with the aggregator, whose clock is then the job's.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_NETWORK_CLOCK_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_NETWORK_CLOCK_H_

#include <optional>
#include <span>

#include "capture/align/clock_model.h"
#include "capture/model/capture.h"

namespace lockstep::align {

// nullopt without a usable exchange. `window` is the capture's on this host. Where REALTIME was stepped, only
// the side of the step with more exchanges is fitted, and a step inside the window widens the bound by its
// size.
std::optional<HostClock> ClockFromNetwork(std::span<const store::ClockExchange> exchanges,
                                          HostInterval window);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_NETWORK_CLOCK_H_
