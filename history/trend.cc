#include "history/trend.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::history {
namespace {

// A host or device counts as new if at least this share of the captures after the change has it.
constexpr double kMostCaptures = 0.8;
// Reports after a change name a culprit in at least this share. Small changes are not in every report.
constexpr double kManyReports = 0.5;

using Contexts = std::vector<const CaptureContext*>;

struct Sides {
  Contexts before, after;
};

std::string LabelValue(const CaptureContext& context, const std::string& name) {
  const auto found = std::find_if(context.labels.begin(), context.labels.end(),
                                  [&name](const Label& label) { return label.name == name; });
  return found == context.labels.end() ? "" : found->value;
}

template <typename Has>
size_t CountOf(const Contexts& contexts, const Has& has) {
  return static_cast<size_t>(
      std::count_if(contexts.begin(), contexts.end(), [&](const auto* c) { return has(*c); }));
}

bool Holds(const std::vector<std::string>& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

// Labels whose value differs between the last capture before the change and the first after it. If later
// captures have other values still, as commits do, the first one is where the change came in.
void AddLabels(const Sides& sides, std::vector<Suspect>& suspects) {
  const CaptureContext& last = *sides.before.back();
  for (const Label& label : sides.after.front()->labels) {
    const std::string before = LabelValue(last, label.name);
    if (before == label.value) continue;
    const auto has = [&label](const CaptureContext& c) { return LabelValue(c, label.name) == label.value; };
    suspects.push_back({.kind = Suspect::Kind::kLabel,
                        .name = label.name,
                        .before = before,
                        .after = label.value,
                        .with_before = CountOf(sides.before, has),
                        .with_after = CountOf(sides.after, has)});
  }
}

// Hosts or device models that most captures after the change have and none before it.
void AddNew(const Sides& sides, Suspect::Kind kind, std::vector<std::string> CaptureContext::*texts,
            std::vector<Suspect>& suspects) {
  std::map<std::string, size_t> after;
  for (const CaptureContext* context : sides.after) {
    for (const std::string& text : context->*texts) ++after[text];
  }
  for (const auto& [text, count] : after) {
    const auto has = [&, &text = text](const CaptureContext& c) { return Holds(c.*texts, text); };
    if (static_cast<double>(count) < kMostCaptures * static_cast<double>(sides.after.size())) continue;
    if (CountOf(sides.before, has) > 0) continue;
    suspects.push_back({.kind = kind, .after = text, .with_after = count});
  }
}

std::map<std::string, std::string> CulpritsOf(const CaptureContext& context) {
  std::map<std::string, std::string> causes;  // by host; the first entry of a report costs most
  for (const Finding& finding : context.findings) {
    if (finding.list != kStragglers) continue;
    for (const FindingRank& rank : finding.ranks) {
      if (!rank.host.empty()) causes.emplace(rank.host, finding.cause);
    }
  }
  return causes;
}

// Hosts that many reports after the change name, and at most half as large a share of those before.
void AddCulprits(const Sides& sides, std::vector<Suspect>& suspects) {
  std::map<std::string, std::map<std::string, size_t>> after;  // by host and cause
  for (const CaptureContext* context : sides.after) {
    for (const auto& [host, cause] : CulpritsOf(*context)) ++after[host][cause];
  }
  for (const auto& [host, causes] : after) {
    size_t count = 0;
    for (const auto& [cause, reports] : causes) count += reports;
    const size_t before =
        CountOf(sides.before, [&, &host = host](const auto& c) { return CulpritsOf(c).count(host) != 0; });
    const double share_after = static_cast<double>(count) / static_cast<double>(sides.after.size());
    const double share_before = static_cast<double>(before) / static_cast<double>(sides.before.size());
    if (share_after < kManyReports || share_before > share_after / 2) continue;
    const auto most = std::max_element(causes.begin(), causes.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    suspects.push_back({.kind = Suspect::Kind::kCulprit,
                        .after = host,
                        .with_before = before,
                        .with_after = count,
                        .cause = most->first});
  }
}

void AddWorldSize(const Sides& sides, std::vector<Suspect>& suspects) {
  const int64_t before = sides.before.back()->head.world_size, after = sides.after.front()->head.world_size;
  if (before == after) return;
  const auto has = [after](const CaptureContext& c) { return c.head.world_size == after; };
  suspects.push_back({.kind = Suspect::Kind::kWorldSize,
                      .before = absl::StrCat(before),
                      .after = absl::StrCat(after),
                      .with_before = CountOf(sides.before, has),
                      .with_after = CountOf(sides.after, has)});
}

std::vector<Suspect> SuspectsOf(const Sides& sides) {
  std::vector<Suspect> suspects;
  AddWorldSize(sides, suspects);
  AddNew(sides, Suspect::Kind::kDevice, &CaptureContext::devices, suspects);
  AddCulprits(sides, suspects);
  AddLabels(sides, suspects);
  AddNew(sides, Suspect::Kind::kHost, &CaptureContext::hosts, suspects);
  // The difference of the shares is 1 for a suspect that separates both sides.
  const auto power = [&sides](const Suspect& s) {
    return static_cast<double>(s.with_after) / static_cast<double>(sides.after.size()) -
           static_cast<double>(s.with_before) / static_cast<double>(sides.before.size());
  };
  std::stable_sort(suspects.begin(), suspects.end(),
                   [&power](const Suspect& a, const Suspect& b) { return power(a) > power(b); });
  return suspects;
}

}  // namespace

Trend MakeTrend(const std::string& job, const Metric& metric, const std::vector<CaptureContext>& contexts,
                const ChangeOptions& options) {
  Trend trend{.job = job, .metric = &metric, .options = options};
  std::vector<double> values;
  Contexts with_value;
  for (const CaptureContext& context : contexts) {
    const std::optional<double>& value = context.head.*metric.value;
    if (!value) {
      ++trend.without_value;
      continue;
    }
    trend.partial += context.head.partial ? 1 : 0;
    trend.points.push_back({.head = context.head, .value = *value});
    values.push_back(*value);
    with_value.push_back(&context);
  }
  for (const ChangePoint& change : FindChangePoints(values, options)) {
    const auto at = [&with_value](size_t place) {
      return with_value.begin() + static_cast<ptrdiff_t>(place);
    };
    const Sides sides{.before = {at(change.before_begin), at(change.first)},
                      .after = {at(change.first), at(change.after_end)}};
    trend.changes.push_back({.change = change,
                             .worse = (change.after > change.before) == (metric.better == Better::kLower),
                             .suspects = SuspectsOf(sides)});
  }
  return trend;
}

}  // namespace lockstep::history
