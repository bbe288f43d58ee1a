#include "views/host/process.h"

namespace lockstep::views {

std::vector<Process> ProcessesOf(const store::Capture& capture) {
  std::vector<Process> processes;
  const store::RankData* last = nullptr;
  // Entries are sorted by rank, device, incarnation: those of one process need not be neighbours.
  const auto find = [&](const store::RankData& r) -> Process* {
    for (auto p = processes.rbegin(); p != processes.rend() && p->rank == r.rank; ++p) {
      const store::RankData& other = capture.ranks[p->entries[0]];
      if (other.incarnation == r.incarnation && other.pid == r.pid) return &*p;
    }
    return nullptr;
  };
  for (uint32_t i = 0; i < capture.ranks.size(); ++i) {
    const store::RankData& r = capture.ranks[i];
    Process* p = last != nullptr && last->rank == r.rank ? find(r) : nullptr;
    if (p == nullptr) p = &processes.emplace_back(Process{.rank = r.rank});
    p->entries.push_back(i);
    if (p->frames == nullptr) p->frames = r.frames.get();
    last = &r;
  }
  return processes;
}

}  // namespace lockstep::views
