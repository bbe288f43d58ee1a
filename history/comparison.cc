#include "history/comparison.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/median.h"

namespace lockstep::history {
namespace {

std::optional<double> MedianOf(const ComparedSide& side, const Metric& metric) {
  std::vector<double> values;
  for (const CaptureContext& capture : side.captures) {
    if (const std::optional<double>& value = capture.head.*metric.value) values.push_back(*value);
  }
  return values.empty() ? std::nullopt : std::optional(Median(std::move(values)));
}

// Two findings with the same key are the same fault.
std::string KeyOf(const Finding& finding) {
  std::string key = absl::StrCat(finding.list, "\n", finding.kind, "\n", finding.cause);
  for (const FindingRank& rank : finding.ranks)
    absl::StrAppend(&key, "\n", rank.rank.value(), " ", rank.host);
  return key;
}

void CountFindings(const ComparedSide& side, size_t ComparedFinding::*count,
                   std::map<std::string, ComparedFinding>& found) {
  for (const CaptureContext& capture : side.captures) {
    std::map<std::string, const Finding*> once;
    for (const Finding& finding : capture.findings) once.emplace(KeyOf(finding), &finding);
    for (const auto& [key, finding] : once) {
      ComparedFinding& compared = found[key];
      compared.finding = *finding;
      ++(compared.*count);
    }
  }
}

// 0: only in B, 1: only in A, 2: in both.
int GroupOf(const ComparedFinding& finding) { return finding.in_a == 0 ? 0 : finding.in_b == 0 ? 1 : 2; }

std::vector<ComparedFinding> FindingsOfSides(const ComparedSide& a, const ComparedSide& b) {
  std::map<std::string, ComparedFinding> found;
  CountFindings(a, &ComparedFinding::in_a, found);
  CountFindings(b, &ComparedFinding::in_b, found);
  std::vector<ComparedFinding> list;
  for (auto& [key, finding] : found) list.push_back(std::move(finding));
  std::stable_sort(list.begin(), list.end(), [](const ComparedFinding& x, const ComparedFinding& y) {
    if (GroupOf(x) != GroupOf(y)) return GroupOf(x) < GroupOf(y);
    return x.finding.lost_ns_per_step.value_or(0) > y.finding.lost_ns_per_step.value_or(0);
  });
  return list;
}

std::map<std::string, std::string> NewestLabels(const ComparedSide& side) {
  std::map<std::string, std::string> labels;
  for (const CaptureContext& capture : side.captures) {
    for (const Label& label : capture.labels) labels[label.name] = label.value;
  }
  return labels;
}

std::vector<ComparedLabel> DifferentLabels(const ComparedSide& a, const ComparedSide& b) {
  std::map<std::string, ComparedLabel> both;
  for (const auto& [name, value] : NewestLabels(a)) both[name].a = value;
  for (const auto& [name, value] : NewestLabels(b)) both[name].b = value;
  std::vector<ComparedLabel> different;
  for (auto& [name, label] : both) {
    if (label.a != label.b) different.push_back({.name = name, .a = label.a, .b = label.b});
  }
  return different;
}

}  // namespace

Comparison Compare(ComparedSide a, ComparedSide b) {
  Comparison comparison;
  for (const Metric& metric : Metrics())
    comparison.metrics.push_back({.metric = &metric, .a = MedianOf(a, metric), .b = MedianOf(b, metric)});
  comparison.findings = FindingsOfSides(a, b);
  comparison.labels = DifferentLabels(a, b);
  comparison.a = std::move(a);
  comparison.b = std::move(b);
  return comparison;
}

}  // namespace lockstep::history
