#include "analysis/compare/classes.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analysis/compare/extra_work.h"
#include "analysis/compare/signatures.h"

namespace lockstep::analysis {
namespace {

using capture::kNone;

class Classifier {
 public:
  Classifier(const Graph& graph, const GraphInput& input, const Layout* layout)
      : g_(graph),
        in_(input),
        layout_(layout),
        signature_(NameSignatures(graph, input)),
        extra_work_(graph, signature_, input.steps.count(), layout) {
    if (layout_ == nullptr || layout_->stages < 2) return;
    std::vector<uint32_t> ranks(layout_->stages, 0);
    for (int32_t s : layout_->stage_of) {
      if (s >= 0) ++ranks[static_cast<size_t>(s)];
    }
    several_each_ = *std::min_element(ranks.begin(), ranks.end()) > 1;
  }

  Classes Run() {
    FindOwners();
    class_of_.assign(g_.units.size(), kNone);
    for (uint32_t u = 0; u < g_.units.size();) {
      const uint32_t begin = u;
      const uint32_t rank = g_.units[u].rank_index;
      while (u < g_.units.size() && g_.units[u].rank_index == rank) ++u;
      ClassifyRank(begin, u);
    }
    return Collect();
  }

 private:
  void FindOwners() {
    absl::flat_hash_map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> index;
    out_.owner_of_instance.assign(in_.matches.instances.size(), kNone);
    for (uint32_t n = 0; n < in_.matches.instances.size(); ++n) {
      const capture::Instance& instance = in_.matches.instances[n];
      if (!instance.usable) continue;
      const bool pair =
          instance.complete && instance.members.size() == 2 && !in_.times.instances[n].symmetric;
      const uint32_t first = pair ? instance.members[0].rank_index : kNone;
      const uint32_t second = pair ? instance.members[1].rank_index : kNone;
      const auto [it, fresh] =
          index.try_emplace({instance.group, first, second}, static_cast<uint32_t>(out_.owners.size()));
      if (fresh) {
        out_.owners.push_back({.group = instance.group, .is_pair = pair});
      }
      // An instance with a lost record has fewer members.
      auto& ranks = out_.owners[it->second].rank_indices;
      if (ranks.size() < instance.members.size()) {
        ranks.clear();
        for (const capture::Member& m : instance.members) ranks.push_back(m.rank_index);
      }
      out_.owner_of_instance[n] = it->second;
    }
  }

  // False for a communication kernel whose waiting cannot be separated from its transfer: its partners are
  // missing, or their clocks are too uncertain.
  bool Comparable(uint32_t u) const {
    const Unit& unit = g_.units[u];
    if (unit.step < 0 || unit.kind != UnitKind::kTransfer) return unit.step >= 0;
    const uint32_t collective = in_.capture.ranks[unit.rank_index].activities[unit.source].collective;
    return unit.instance != kNone && in_.times.parts[unit.rank_index][collective].split;
  }

  // On a rank without host records, the idle time before a transfer is known even if its waiting is not.
  bool Classified(uint32_t u) const {
    return Comparable(u) || (g_.units[u].step >= 0 && !g_.HasHost(g_.units[u].rank_index));
  }

  bool IsHost(uint32_t u) const { return IsHostUnit(g_.units[u].kind); }

  uint32_t Dense(uint64_t signature) {
    const auto [it, fresh] = dense_.try_emplace(signature, static_cast<uint32_t>(total_.size()));
    if (fresh) {
      total_.push_back(0);
      seen_.push_back(0);
      unit_of_.push_back(kNone);
      usual_.push_back(0);
      base_.push_back(kNone);
      extra_work_base_.push_back(kNone);
    }
    return it->second;
  }

  // Kernels are compared inside their stage. All other work is too, if every stage has other ranks to compare
  // with.
  int32_t StageOf(uint32_t u) const {
    const Unit& unit = g_.units[u];
    if (layout_ == nullptr || layout_->stages < 2 || unit.kind == UnitKind::kTransfer) return -1;
    return unit.kind == UnitKind::kKernel || several_each_ ? layout_->stage_of[unit.rank_index] : -1;
  }

  // Classifies one rank's units, which are contiguous: host units in time order, then device units in time
  // order.
  void ClassifyRank(uint32_t begin, uint32_t end) {
    const size_t steps = in_.steps.count();
    // Group units by step, and keep their order.
    std::vector<uint32_t> step_begin(steps + 1, 0);
    for (uint32_t u = begin; u < end; ++u) {
      if (Classified(u)) ++step_begin[static_cast<size_t>(g_.units[u].step) + 1];
    }
    for (size_t s = 0; s < steps; ++s) step_begin[s + 1] += step_begin[s];
    std::vector<uint32_t> ordered(step_begin[steps]);
    std::vector<uint32_t> fill(step_begin.begin(), step_begin.end() - 1);
    for (uint32_t u = begin; u < end; ++u) {
      if (Classified(u)) ordered[fill[static_cast<size_t>(g_.units[u].step)]++] = u;
    }
    for (size_t s = 0; s < steps; ++s) {
      ClassifyStep(s, std::span(ordered).subspan(step_begin[s], step_begin[s + 1] - step_begin[s]));
    }
  }

  void ClassifyStep(size_t step, std::span<const uint32_t> units) {
    std::vector<uint32_t> signatures;
    std::vector<uint32_t> touched;
    signatures.reserve(units.size());
    for (uint32_t u : units) {
      const uint32_t t = Dense(signature_[u]);
      signatures.push_back(t);
      if (total_[t]++ == 0) touched.push_back(t);
      unit_of_[t] = u;
    }
    for (uint32_t t : touched) {
      const uint32_t u = unit_of_[t];
      usual_[t] = total_[t];
      if (!extra_work_.empty())
        usual_[t] = extra_work_.UsualOf(g_.units[u].rank_index, step, signature_[u]).value_or(total_[t]);
      base_[t] = ClassesOf(t, usual_[t], StageOf(u));
      if (usual_[t] < total_[t])
        extra_work_base_[t] = ExtraWorkClassesOf(t, total_[t] - usual_[t], StageOf(u));
    }
    for (size_t i = 0; i < units.size(); ++i) {
      const uint32_t t = signatures[i], nth = seen_[t]++;
      class_of_[units[i]] = nth < usual_[t] ? base_[t] + nth : extra_work_base_[t] + nth - usual_[t];
    }
    for (uint32_t t : touched) total_[t] = seen_[t] = 0;
  }

  // The first class of a signature that occurs `total` times in a step.
  uint32_t ClassesOf(uint32_t t, uint32_t total, int32_t stage) {
    const auto [it, fresh] = class_base_.try_emplace({t, total, stage}, classes_);
    if (fresh) {
      if (stage >= 0 && InFamilies(g_.units[unit_of_[t]].kind)) AddFamily(t, total, stage);
      classes_ += total;
    }
    return it->second;
  }

  uint32_t ExtraWorkClassesOf(uint32_t t, uint32_t number, int32_t stage) {
    const auto [it, fresh] = extra_work_classes_.try_emplace({t, number, stage}, classes_);
    if (fresh) {
      classes_ += number;
      out_.extra_work.resize(classes_, 0);
      std::fill(out_.extra_work.end() - number, out_.extra_work.end(), uint8_t{1});
    }
    return it->second;
  }

  static bool InFamilies(UnitKind kind) { return kind == UnitKind::kKernel || kind == UnitKind::kHostCall; }

  void AddFamily(uint32_t signature, uint32_t total, int32_t stage) {
    const uint32_t family =
        families_.try_emplace({signature, total}, static_cast<uint32_t>(families_.size())).first->second;
    out_.stage_families.push_back({family, stage, classes_, total});
  }

  uint32_t Owner(uint32_t u) const {
    const Unit& unit = g_.units[u];
    if (unit.kind != UnitKind::kTransfer) return unit.rank_index;
    return out_.owner_of_instance[unit.instance];
  }

  Classes Collect() {
    Classes& out = out_;
    out.count = classes_;
    std::sort(out.stage_families.begin(), out.stage_families.end(),
              [](const StageFamily& a, const StageFamily& b) {
                return std::tie(a.family, a.stage) < std::tie(b.family, b.stage);
              });
    std::vector<uint32_t> begin(classes_ + 1, 0);
    for (uint32_t c : class_of_) {
      if (c != kNone) ++begin[c + 1];
    }
    for (uint32_t c = 0; c < classes_; ++c) begin[c + 1] += begin[c];
    out.units.resize(begin[classes_]);
    std::vector<uint32_t> fill(begin.begin(), begin.end() - 1);
    for (uint32_t u = 0; u < class_of_.size(); ++u) {
      if (class_of_[u] != kNone) out.units[fill[class_of_[u]]++] = u;
    }
    for (uint32_t c = 0; c < classes_; ++c) {
      const auto first = out.units.begin() + begin[c];
      auto last = out.units.begin() + begin[c + 1];
      if (first == last) continue;
      if (g_.units[*first].kind == UnitKind::kTransfer)
        last = std::stable_partition(first, last, [&](uint32_t u) { return Comparable(u); });
      // Ranks are in order already; a group's members are not.
      if (g_.units[*first].kind == UnitKind::kTransfer) {
        std::stable_sort(first, last, [&](uint32_t a, uint32_t b) { return Owner(a) < Owner(b); });
      }
      for (uint32_t i = begin[c]; i < begin[c] + (last - first); ++i) {
        const uint32_t owner = Owner(out.units[i]);
        if (i == begin[c] || out.cells.back().owner != owner) {
          out.cells.push_back({c, owner, i, 0, g_.units[out.units[i]].kind});
        }
        ++out.cells.back().count;
      }
    }
    AddIdle(begin);
    out.extra_work.resize(out.count, 0);
    return std::move(out_);
  }

  // Without its calls, a host's delays show as idle time of its device. This time is the rank's own, even
  // before a transfer. Ranks of other stages idle at other places, so they are not compared.
  void AddIdle(const std::vector<uint32_t>& begin) {
    std::vector<uint8_t> silent(in_.capture.ranks.size());
    for (uint32_t r = 0; r < silent.size(); ++r) silent[r] = g_.HasHost(r) ? 0 : 1;
    if (std::find(silent.begin(), silent.end(), 1) == silent.end()) return;
    const auto stage_of = [&](uint32_t u) {
      return layout_ != nullptr && several_each_ ? layout_->stage_of[g_.units[u].rank_index] : -1;
    };
    const auto key = [&](uint32_t u) { return std::tuple(stage_of(u), g_.units[u].rank_index, u); };
    std::vector<uint32_t> own;
    for (uint32_t c = 0; c < classes_; ++c) {
      own.clear();
      for (uint32_t i = begin[c]; i < begin[c + 1]; ++i) {
        const uint32_t u = out_.units[i];
        if (silent[g_.units[u].rank_index] != 0) own.push_back(u);
      }
      std::sort(own.begin(), own.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
      for (size_t i = 0; i < own.size(); ++i) {
        const bool other_class = i == 0 || stage_of(own[i]) != stage_of(own[i - 1]);
        const uint32_t rank = g_.units[own[i]].rank_index;
        if (other_class || rank != out_.cells.back().owner) {
          out_.count += other_class ? 1 : 0;
          out_.cells.push_back(
              {out_.count - 1, rank, static_cast<uint32_t>(out_.units.size()), 0, UnitKind::kIdle});
        }
        out_.units.push_back(own[i]);
        ++out_.cells.back().count;
      }
    }
  }

  const Graph& g_;
  const GraphInput& in_;
  const Layout* layout_;
  bool several_each_ = false;  // every stage has more than one rank
  std::vector<uint64_t> signature_;
  ExtraWork extra_work_;
  std::vector<uint32_t> class_of_;
  absl::flat_hash_map<uint64_t, uint32_t> dense_;
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, int32_t>, uint32_t>
      class_base_;  // signature, number in the step, stage
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, int32_t>, uint32_t>
      extra_work_classes_;  // signature, number beyond the usual, stage
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> families_;
  std::vector<uint32_t> total_, usual_, seen_, base_, extra_work_base_, unit_of_;  // by dense signature
  uint32_t classes_ = 0;
  Classes out_;
};

}  // namespace

Classes Classify(const Graph& graph, const GraphInput& input, const Layout* layout) {
  return Classifier(graph, input, layout).Run();
}

}  // namespace lockstep::analysis
