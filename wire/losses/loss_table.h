// Lost records since the program started, by the stage that lost them and their kind.
#ifndef LOCKSTEP_COMMON_METRICS_LOSS_TABLE_H_
#define LOCKSTEP_COMMON_METRICS_LOSS_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/metrics/page.h"

namespace lockstep::metrics {

// Any thread.
class LossTable {
 public:
  // In the words of report.json. The last takes the losses of stages that are not named: the word may come
  // from another machine, and each new one would be a time series for ever.
  explicit LossTable(std::vector<const char*> stages);

  // `kind`: columns::Kind; 0, or one that is not known: of no kind.
  void Add(std::string_view stage, uint32_t kind, uint64_t records);
  // Every stage and kind, those without a loss too: a series that begins at its first loss does not show it
  // as an increase.
  void Write(const Page::Family& family) const;

 private:
  const std::vector<const char*> stages_;
  std::vector<std::atomic<uint64_t>> records_;  // by stage, then kind
};

}  // namespace lockstep::metrics

#endif  // LOCKSTEP_COMMON_METRICS_LOSS_TABLE_H_
