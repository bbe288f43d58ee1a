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

// What a folder of captures holds.
struct StoreUse {
  size_t captures = 0;
  uint64_t bytes = 0;
};
// Looks at every file.
StoreUse MeasureStore(const std::string& folder);

struct Retired {
  std::vector<std::string> names;
  uint64_t bytes = 0;  // of those
  StoreUse left;
};

// Removes the oldest captures (their names sort by time) of `folder` until both limits hold. Those that
// `in_use` names stay, as does the newest.
Retired Retire(const std::string& folder, const Retention& limits, const std::function<bool(const std::string&)>& in_use);

}  // namespace lockstep

#endif  // LOCKSTEP_AGGREGATOR_RETENTION_H_
