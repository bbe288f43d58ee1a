// Describes slowdowns in words. Pure.
#ifndef LOCKSTEP_AGGREGATOR_NOTICE_SLOWDOWN_TEXT_H_
#define LOCKSTEP_AGGREGATOR_NOTICE_SLOWDOWN_TEXT_H_

#include <string>

#include "lockstep/v1/control.pb.h"

namespace lockstep::aggregator {

// Returns a sentence with the rank, how much longer it takes, since when, and the job's time per step before
// and since. docs/noticing.md has an example.
std::string SlowdownText(const v1::Slowdown& slowdown);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NOTICE_SLOWDOWN_TEXT_H_
