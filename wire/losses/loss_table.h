// Counts lost records since the program started, by kind and by the stage that lost them.
#ifndef LOCKSTEP_WIRE_LOSSES_LOSS_TABLE_H_
#define LOCKSTEP_WIRE_LOSSES_LOSS_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/metrics/page.h"

namespace lockstep::losses {

// Any thread may call it.
class LossTable {
 public:
  // `stages` are the words of report.json. The last one also counts the losses of stages that are not listed.
  // A stage's name may come from another machine, and each new name would stay as a time series.
  explicit LossTable(std::vector<const char*> stages);

  // `kind` is a columns::Kind. 0 and unknown values count as "unknown".
  void Add(std::string_view stage, uint32_t kind, uint64_t records);
  // Writes every stage and kind, also those without a loss. Prometheus would not see the first loss as an
  // increase if the series began with it.
  void Write(const metrics::Page::Family& family) const;

 private:
  const std::vector<const char*> stages_;
  std::vector<std::atomic<uint64_t>> records_;  // by stage, then kind
};

}  // namespace lockstep::losses

#endif  // LOCKSTEP_WIRE_LOSSES_LOSS_TABLE_H_
