// How much the aggregator keeps.
#ifndef LOCKSTEP_AGGREGATOR_RETENTION_H_
#define LOCKSTEP_AGGREGATOR_RETENTION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

struct Retention {
  size_t captures = 100;
  uint64_t bytes = 20ull << 30;
};

// Removes the oldest captures (their names sort by time) of `folder` until both limits hold. Those that
// `in_use` names stay, as does the newest. Returns the names removed.
std::vector<std::string> Retire(const std::string& folder, const Retention& limits,
                                const std::function<bool(const std::string&)>& in_use);

}  // namespace lockstep

#endif  // LOCKSTEP_AGGREGATOR_RETENTION_H_
