#include "formats/kineto/kineto_links.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "formats/common/kineto_names.h"

namespace lockstep::formats {
namespace {

using capture::Collective;
using capture::CollectiveOp;

const std::vector<uint32_t> kNoCollectives;

std::string RanksText(const capture::Group& group) {
  std::string text = "[";
  for (size_t i = 0; i < group.members.size(); ++i)
    absl::StrAppend(&text, i == 0 ? "" : ", ", group.members[i].value());
  return text + "]";
}

// Input and output elements of a rank, from NCCL's `count`. CountedElements() in kineto_collector.cc is the
// inverse.
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

KinetoLinks::KinetoLinks(const capture::Capture& capture, const capture::RankData& rank)
    : capture_(capture), rank_(rank) {
  for (const capture::DeviceActivity& a : rank.activities) {
    if (a.correlation.value() != 0) launched_.insert(a.correlation);
  }
  for (const capture::ApiCall& call : rank.api_calls) {
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
  // Ranges and calls are both sorted by start. One pass keeps, per thread, the last range that names a
  // collective.
  absl::flat_hash_map<ThreadId, const capture::HostRange*> last_named;
  size_t next_range = 0;
  for (const capture::ApiCall& call : rank_.api_calls) {
    for (; next_range < rank_.ranges.size() && rank_.ranges[next_range].start <= call.start; ++next_range) {
      const capture::HostRange& range = rank_.ranges[next_range];
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
  absl::flat_hash_map<CorrelationId, const capture::EventRecord*> of_call;
  for (const capture::EventRecord& record : rank_.event_records) of_call.emplace(record.correlation, &record);
  for (const capture::Sync& sync : rank_.syncs) {
    if (sync.event != capture::kNone) wait_calls_.emplace(sync.correlation, sync.start);
  }
  // Calls are sorted by start, so the records of each event are sorted, too.
  for (const capture::ApiCall& call : rank_.api_calls) {
    if (const auto record = of_call.find(call.correlation); record != of_call.end())
      records_of_event_[record->second->event].push_back({call.start, record->second});
    if (const auto wait = wait_calls_.find(call.correlation); wait != wait_calls_.end())
      wait->second = call.start;
  }
}

const capture::EventRecord* KinetoLinks::RecordFor(const capture::Sync& sync) const {
  const auto records = records_of_event_.find(sync.event);
  const auto wait = wait_calls_.find(sync.correlation);
  if (sync.event == capture::kNone || records == records_of_event_.end() || wait == wait_calls_.end())
    return nullptr;
  const auto after = std::lower_bound(records->second.begin(), records->second.end(), wait->second,
                                      [](const RecordedAt& r, HostTime at) { return r.call < at; });
  return after == records->second.begin() ? nullptr : std::prev(after)->record;
}

uint64_t KinetoLinks::ExternalId(const capture::HostRange& range) const {
  const auto it = id_of_range_.find(&range);
  return it == id_of_range_.end() ? 0 : it->second;
}

uint64_t KinetoLinks::ExternalId(const capture::DeviceActivity& activity) const {
  const auto it = id_of_collective_.find(activity.collective);
  return it == id_of_collective_.end() ? 0 : it->second;
}

const std::vector<uint32_t>& KinetoLinks::CollectivesWithoutRange(CorrelationId correlation) const {
  const auto it = without_range_.find(correlation);
  return it == without_range_.end() ? kNoCollectives : it->second;
}

void WriteCollectiveArgs(const capture::Capture& capture, const Collective& c, JsonText& out) {
  const bool known = c.bytes >= 0 || c.sequence >= 0;
  if (!known || c.op == CollectiveOp::kUnknown) return;
  out.Add(", \"Collective name\": ", Quoted{TorchCollectiveName(c.op)});
  const capture::Group* group = c.group < capture.groups.size() ? &capture.groups[c.group] : nullptr;
  const std::string_view datatype = capture.Text(c.datatype);
  const int size = capture::ElementBytes(datatype);
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
    // The key of an imported group already ends with its ranks.
    if (name.ends_with(" " + ranks)) name.remove_suffix(ranks.size() + 1);
    out.Add(", \"Process Group Name\": ", Quoted{name},
            ", \"Process Group Description\": ", Quoted{group->name});
    if (!group->members.empty()) out.Add(", \"Process Group Ranks\": ", Quoted{ranks});
  }
  const bool sends =
      c.op == CollectiveOp::kSend || c.op == CollectiveOp::kReduce || c.op == CollectiveOp::kGather;
  int32_t other = std::max(c.root, c.peer);
  // PyTorch writes the rank in the world.
  if (group != nullptr && other >= 0 && static_cast<size_t>(other) < group->members.size())
    other = group->members[static_cast<size_t>(other)].value();
  if (other >= 0) out.Add(sends ? ", \"Dst Rank\": " : ", \"Src Rank\": ", other);
  if (c.sequence < 0) return;
  // PyTorch's number counts per group. NCCL's own number counts per operation, and a reader would take it for
  // PyTorch's.
  out.Add(c.source == capture::MatchSource::kGroupSequence ? ", \"Seq\": " : ", \"NCCL Seq\": ", c.sequence);
}

}  // namespace lockstep::formats
