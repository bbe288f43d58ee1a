// Time and certificates for tests of base/tls and of its users.
#ifndef LOCKSTEP_BASE_TLS_TLS_FIXTURE_H_
#define LOCKSTEP_BASE_TLS_TLS_FIXTURE_H_

#include "base/time.h"

namespace lockstep::tls {

inline constexpr HostTime kNow{1'800'000'000'000'000'000};  // 2027-01-15 08:00 UTC
inline constexpr Nanos kDay = Nanos::Seconds(86'400);

}  // namespace lockstep::tls

#endif  // LOCKSTEP_BASE_TLS_TLS_FIXTURE_H_
