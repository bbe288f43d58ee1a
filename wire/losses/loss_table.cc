#include "wire/losses/loss_table.h"

#include <utility>

#include "wire/columns/schema.h"

namespace lockstep::losses {

LossTable::LossTable(std::vector<const char*> stages)
    : stages_(std::move(stages)), records_(stages_.size() * columns::kKinds) {}

void LossTable::Add(std::string_view stage, uint32_t kind, uint64_t records) {
  size_t row = 0;
  while (row + 1 < stages_.size() && stage != stages_[row]) ++row;
  const size_t column = kind < columns::kKinds ? kind : 0;
  records_[row * columns::kKinds + column].fetch_add(records, std::memory_order_relaxed);
}

void LossTable::Write(const metrics::Page::Family& family) const {
  for (size_t row = 0; row < stages_.size(); ++row) {
    for (size_t kind = 0; kind < columns::kKinds; ++kind) {
      family.Count(records_[row * columns::kKinds + kind].load(std::memory_order_relaxed),
                   {{"stage", stages_[row]}, {"kind", columns::KindName(static_cast<columns::Kind>(kind))}});
    }
  }
}

}  // namespace lockstep::losses
