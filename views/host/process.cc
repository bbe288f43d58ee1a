#include "views/host/process.h"

namespace lockstep::views {

std::vector<Process> ProcessesOf(const capture::Capture& capture) {
  std::vector<Process> processes;
  const capture::RankData* last = nullptr;
  // Entries are sorted by rank, device and incarnation, so the entries of one process may not be adjacent.
  const auto find = [&](const capture::RankData& r) -> Process* {
    for (auto p = processes.rbegin(); p != processes.rend() && p->rank == r.rank; ++p) {
      const capture::RankData& other = capture.ranks[p->entries[0]];
      if (other.incarnation == r.incarnation && other.pid == r.pid) return &*p;
    }
    return nullptr;
  };
  for (uint32_t i = 0; i < capture.ranks.size(); ++i) {
    const capture::RankData& r = capture.ranks[i];
    Process* p = last != nullptr && last->rank == r.rank ? find(r) : nullptr;
    if (p == nullptr) p = &processes.emplace_back(Process{.rank = r.rank});
    p->entries.push_back(i);
    if (p->frames == nullptr) p->frames = r.frames.get();
    last = &r;
  }
  return processes;
}

}  // namespace lockstep::views
