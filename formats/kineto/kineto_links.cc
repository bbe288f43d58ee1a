#include "formats/kineto/kineto_links.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "formats/common/kineto_names.h"

namespace lockstep::trace {
namespace {

using store::Collective;
using store::CollectiveOp;

const std::vector<uint32_t> kNoCollectives;

std::string RanksText(const store::Group& group) {
  std::string text = "[";
  for (size_t i = 0; i < group.members.size(); ++i)
    absl::StrAppend(&text, i == 0 ? "" : ", ", group.members[i].value());
  return text + "]";
}

// In and out, from what NCCL's `count` means (CountedElements in kineto_collector.cc reads the same way).
struct Elements {
  int64_t in;
  int64_t out;
};
Elements ElementsOf(CollectiveOp op, int64_t counted, int64_t group_size) {
  switch (op) {
    case CollectiveOp::kAllGather:
    case CollectiveOp::kGather:
      return {counted, counted * group_size};
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kScatter:
      return {counted * group_size, counted};
    default:
      return {counted, counted};
  }
}

}  // namespace

KinetoLinks::KinetoLinks(const store::Capture& capture, const store::RankData& rank)
    : capture_(capture), rank_(rank) {
  for (const store::DeviceActivity& a : rank.activities) {
    if (a.correlation.value() != 0) launched_.insert(a.correlation);
  }
  for (const store::ApiCall& call : rank.api_calls) {
    if (call.correlation.value() != 0) called_.insert(call.correlation);
  }
  LinkCollectives();
  LinkEvents();
}

void KinetoLinks::LinkCollectives() {
  absl::flat_hash_map<CorrelationId, std::vector<uint32_t>> launched_by;
  for (uint32_t i = 0; i < rank_.collectives.size(); ++i) {
    const Collective& c = rank_.collectives[i];
    if (c.activity >= rank_.activities.size() || c.op == CollectiveOp::kUnknown) continue;
    const CorrelationId correlation = rank_.activities[c.activity].correlation;
    if (called_.contains(correlation)) launched_by[correlation].push_back(i);
  }
  if (launched_by.empty()) return;
  // Ranges and calls are both sorted by start: one pass keeps, per thread, the last range that names a
  // collective.
  absl::flat_hash_map<ThreadId, const store::HostRange*> last_named;
  size_t next_range = 0;
  for (const store::ApiCall& call : rank_.api_calls) {
    for (; next_range < rank_.ranges.size() && rank_.ranges[next_range].start <= call.start; ++next_range) {
      const store::HostRange& range = rank_.ranges[next_range];
      if (capture_.Text(range.name).starts_with("nccl:")) last_named[range.thread] = &range;
    }
    const auto it = launched_by.find(call.correlation);
    if (it == launched_by.end()) continue;
    const auto around = last_named.find(call.thread);
    const bool named = around != last_named.end() && around->second->end >= call.start;
    for (uint32_t collective : it->second) {
      uint64_t id = call.correlation.value();
      if (named) id = id_of_range_.try_emplace(around->second, id).first->second;
      id_of_collective_.try_emplace(collective, id);
    }
    if (!named) without_range_[call.correlation] = {it->second.front()};
    launched_by.erase(it);
  }
}

void KinetoLinks::LinkEvents() {
  if (rank_.event_records.empty()) return;
  absl::flat_hash_map<CorrelationId, const store::EventRecord*> of_call;
  for (const store::EventRecord& record : rank_.event_records) of_call.emplace(record.correlation, &record);
  for (const store::Sync& sync : rank_.syncs) {
    if (sync.event != store::kNone) wait_calls_.emplace(sync.correlation, sync.start);
  }
  // Sorted by start, so the records of an event are.
  for (const store::ApiCall& call : rank_.api_calls) {
    if (const auto record = of_call.find(call.correlation); record != of_call.end())
      records_of_event_[record->second->event].push_back({call.start, record->second});
    if (const auto wait = wait_calls_.find(call.correlation); wait != wait_calls_.end())
      wait->second = call.start;
  }
}

const store::EventRecord* KinetoLinks::RecordFor(const store::Sync& sync) const {
  const auto records = records_of_event_.find(sync.event);
  const auto wait = wait_calls_.find(sync.correlation);
  if (sync.event == store::kNone || records == records_of_event_.end() || wait == wait_calls_.end())
    return nullptr;
  const auto after = std::lower_bound(records->second.begin(), records->second.end(), wait->second,
                                      [](const RecordedAt& r, HostTime at) { return r.call < at; });
  return after == records->second.begin() ? nullptr : std::prev(after)->record;
}

uint64_t KinetoLinks::ExternalId(const store::HostRange& range) const {
  const auto it = id_of_range_.find(&range);
  return it == id_of_range_.end() ? 0 : it->second;
}

uint64_t KinetoLinks::ExternalId(const store::DeviceActivity& activity) const {
  const auto it = id_of_collective_.find(activity.collective);
  return it == id_of_collective_.end() ? 0 : it->second;
}

const std::vector<uint32_t>& KinetoLinks::CollectivesWithoutRange(CorrelationId correlation) const {
  const auto it = without_range_.find(correlation);
  return it == without_range_.end() ? kNoCollectives : it->second;
}

void WriteCollectiveArgs(const store::Capture& capture, const Collective& c, JsonText& out) {
  const bool known = c.bytes >= 0 || c.sequence >= 0;
  if (!known || c.op == CollectiveOp::kUnknown) return;
  out.Add(", \"Collective name\": ", Quoted{TorchCollectiveName(c.op)});
  const store::Group* group = c.group < capture.groups.size() ? &capture.groups[c.group] : nullptr;
  const std::string_view datatype = capture.Text(c.datatype);
  const int size = store::ElementBytes(datatype);
  if (c.bytes >= 0 && size != 0) {
    const Elements elements = ElementsOf(c.op, c.bytes / size, group != nullptr ? group->size : 1);
    out.Add(", \"In msg nelems\": ", elements.in, ", \"Out msg nelems\": ", elements.out);
  }
  if (group != nullptr) out.Add(", \"Group size\": ", group->size);
  if (c.bytes >= 0 && size != 0)
    out.Add(", \"dtype\": ", Quoted{TorchDatatype(datatype)},
            ", \"In split size\": \"[]\", \"Out split size\": \"[]\"");
  if (group != nullptr) {
    const std::string ranks = RanksText(*group);
    std::string_view name = group->key;
    // An imported group's key ends with its ranks already.
    if (name.ends_with(" " + ranks)) name.remove_suffix(ranks.size() + 1);
    out.Add(", \"Process Group Name\": ", Quoted{name},
            ", \"Process Group Description\": ", Quoted{group->name});
    if (!group->members.empty()) out.Add(", \"Process Group Ranks\": ", Quoted{ranks});
  }
  const bool sends =
      c.op == CollectiveOp::kSend || c.op == CollectiveOp::kReduce || c.op == CollectiveOp::kGather;
  if (const int32_t other = std::max(c.root, c.peer); other >= 0)
    out.Add(sends ? ", \"Dst Rank\": " : ", \"Src Rank\": ", other);
  if (c.sequence < 0) return;
  // PyTorch's number counts per group; NCCL's own counts per operation and would be mistaken for it.
  out.Add(c.source == store::MatchSource::kGroupSequence ? ", \"Seq\": " : ", \"NCCL Seq\": ", c.sequence);
}

}  // namespace lockstep::trace
