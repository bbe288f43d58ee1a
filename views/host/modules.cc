#include "views/host/modules.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "views/host/host_tree.h"

namespace lockstep::views {
namespace {

using capture::FrameKind;
using capture::HostFrames;
using capture::kNone;

// Operators are inside modules. Python functions between them are left out.
constexpr FrameKinds kModulesAndOperators{FrameKind::kModule, FrameKind::kOperator, FrameKind::kAnnotation};

std::string_view WithoutPrefix(std::string_view name) {
  constexpr std::string_view kPrefix = "nn.Module: ";
  return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
}

// The tree under construction: a row per rank and path.
class ModuleTable {
 public:
  ModuleRow& RowAt(RankId rank, const std::string& path) {
    const auto [it, fresh] = rows_.try_emplace({rank, path});
    ModuleRow& row = it->second;
    if (fresh) {
      row.rank = rank;
      row.path = path;
      const size_t slash = path.rfind('/');
      row.name = slash == std::string::npos ? path : path.substr(slash + 1);
      row.depth = static_cast<uint32_t>(std::count(path.begin(), path.end(), '/'));
    }
    return row;
  }

  std::vector<ModuleRow> Take() {
    // Children by their parent's path, longest host time first.
    std::map<std::pair<RankId, std::string>, std::vector<const ModuleRow*>> children;
    for (const auto& [key, row] : rows_) {
      const size_t slash = row.path.rfind('/');
      children[{row.rank, slash == std::string::npos ? "" : row.path.substr(0, slash)}].push_back(&row);
    }
    for (auto& [parent, of] : children) {
      std::stable_sort(of.begin(), of.end(),
                       [](const ModuleRow* a, const ModuleRow* b) { return a->host > b->host; });
    }
    std::vector<ModuleRow> out;
    for (const auto& [parent, roots] : children) {
      if (!parent.second.empty()) continue;
      // The order is depth first, without recursion, because the trace controls the depth of modules.
      std::vector<const ModuleRow*> open(roots.rbegin(), roots.rend());
      while (!open.empty()) {
        const ModuleRow* row = open.back();
        open.pop_back();
        out.push_back(*row);
        if (const auto in = children.find({row->rank, row->path}); in != children.end())
          open.insert(open.end(), in->second.rbegin(), in->second.rend());
      }
    }
    return out;
  }

 private:
  std::map<std::pair<RankId, std::string>, ModuleRow> rows_;
};

bool HasModules(const HostFrames& frames) {
  return std::any_of(frames.frames.begin(), frames.frames.end(),
                     [](const capture::HostFrame& f) { return f.kind == FrameKind::kModule; });
}

// Modules deeper than this count at this level. Real models are not as deep. The limit bounds memory, because
// the path of each level contains all levels above it.
constexpr size_t kDeepest = 256;

// Stores paths of modules, each once.
class Paths {
 public:
  static constexpr uint32_t kRoot = 0;

  uint32_t In(uint32_t parent, std::string_view module) {
    if (paths_[parent].levels == kDeepest) return parent;
    std::string name(module.empty() ? "(no name)" : module);
    // A slash in a name would look like another level.
    std::replace(name.begin(), name.end(), '/', ':');
    const auto [it, fresh] = places_.try_emplace({parent, name}, static_cast<uint32_t>(paths_.size()));
    if (fresh)
      paths_.push_back(
          {parent == kRoot ? name : absl::StrCat(paths_[parent].text, "/", name), paths_[parent].levels + 1});
    return it->second;
  }
  const std::string& Text(uint32_t path) const { return paths_[path].text; }

 private:
  struct Path {
    std::string text;
    size_t levels = 0;
  };
  std::vector<Path> paths_{1};
  std::map<std::pair<uint32_t, std::string>, uint32_t> places_;
};

void AddFromFrames(const capture::Capture& capture, const Process& process, RankId rank, ModuleTable& table) {
  const HostFrames& frames = *process.frames;
  const HostTree tree = BuildHostTree(capture, process, kModulesAndOperators);
  const auto kind_of = [&](uint32_t node) { return frames.frames[tree.nodes[node].frame].kind; };
  Paths paths;
  // By node: the path of the innermost module around it, or of itself.
  std::vector<uint32_t> path_of(tree.nodes.size(), Paths::kRoot);
  for (uint32_t i = 0; i < tree.nodes.size(); ++i) {
    const HostNode& node = tree.nodes[i];
    if (node.parent != kNone) path_of[i] = path_of[node.parent];
    if (kind_of(i) == FrameKind::kModule) {
      // The self time of a module excludes the work launched in a module inside it.
      if (path_of[i] != Paths::kRoot) table.RowAt(rank, paths.Text(path_of[i])).self_device -= node.device;
      path_of[i] = paths.In(path_of[i], WithoutPrefix(capture.Text(frames.frames[node.frame].name)));
      ModuleRow& row = table.RowAt(rank, paths.Text(path_of[i]));
      ++row.occurrences;
      row.host += node.host;
      row.self_host += node.self_host;
      row.device += node.device;
      row.self_device += node.device;
    } else if (kind_of(i) == FrameKind::kOperator && node.parent != kNone &&
               kind_of(node.parent) == FrameKind::kModule) {
      ++table.RowAt(rank, paths.Text(path_of[i])).operators;
    }
  }
}

// "Top(Net).layer1(Sequential)": dots outside of brackets separate levels.
uint32_t PathOf(std::string_view hierarchy, Paths& paths) {
  uint32_t path = Paths::kRoot;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= hierarchy.size(); ++i) {
    const char c = i == hierarchy.size() ? '.' : hierarchy[i];
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c != '.' || (depth > 0 && i < hierarchy.size())) continue;
    path = paths.In(path, hierarchy.substr(begin, i - begin));
    begin = i + 1;
  }
  return path;
}

void AddFromHierarchy(const capture::Capture& capture, const Process& process, RankId rank,
                      ModuleTable& table) {
  const HostFrames& frames = *process.frames;
  const HostTree tree = BuildHostTree(capture, process, FrameKinds{FrameKind::kOperator});
  Paths paths;
  const auto modules_of = [&](uint32_t node) {
    const uint32_t detail = frames.frames[tree.nodes[node].frame].detail;
    return detail == kNone ? kNoName : frames.details[detail].modules;
  };
  for (uint32_t i = 0; i < tree.nodes.size(); ++i) {
    const HostNode& node = tree.nodes[i];
    const NameId modules = modules_of(i);
    // An operator inside another operator of the same module is part of it.
    if (modules == kNoName || (node.parent != kNone && modules_of(node.parent) == modules)) continue;
    const std::string& path = paths.Text(PathOf(capture.Text(modules), paths));
    ModuleRow& own = table.RowAt(rank, path);
    ++own.operators;
    own.self_host += node.host;
    own.self_device += node.device;
    for (size_t end = path.size(); end != std::string::npos; end = path.rfind('/', end - 1)) {
      ModuleRow& row = table.RowAt(rank, path.substr(0, end));
      row.host += node.host;
      row.device += node.device;
    }
  }
}

}  // namespace

Modules ModulesOf(const capture::Capture& capture, ModuleRanks ranks) {
  Modules out;
  ModuleTable table;
  const std::vector<Process> processes = ProcessesOf(capture);
  const bool frames = std::any_of(processes.begin(), processes.end(), [](const Process& p) {
    return p.frames != nullptr && HasModules(*p.frames);
  });
  for (const Process& process : processes) {
    if (process.frames == nullptr) continue;
    const RankId rank = ranks == ModuleRanks::kEach ? process.rank : kNoRank;
    if (frames) {
      AddFromFrames(capture, process, rank, table);
    } else {
      AddFromHierarchy(capture, process, rank, table);
    }
  }
  out.rows = table.Take();
  if (!out.rows.empty()) out.source = frames ? ModuleSource::kFrames : ModuleSource::kHierarchy;
  return out;
}

}  // namespace lockstep::views
