#include "formats/kineto/kineto_collectives.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lockstep::formats {
namespace {

using capture::CollectiveOp;

// Reads a list like "[0, 1, 3]". nullopt: the list is shortened, or the text is not a list.
std::optional<std::vector<int64_t>> NumberList(std::string_view text) {
  std::vector<int64_t> numbers;
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  const char* at = text.data() + 1;
  const char* const end = text.data() + text.size() - 1;
  while (at != end) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc()) return std::nullopt;
    numbers.push_back(value);
    at = next;
  }
  return numbers;
}

bool AllEqual(const std::optional<std::vector<int64_t>>& list) {
  return !list || std::adjacent_find(list->begin(), list->end(), std::not_equal_to<>()) == list->end();
}

// Number of elements in NCCL's `count`: the rank's input, or for a reduce-scatter, scatter or receive its
// output.
int64_t CountedElements(CollectiveOp op, const RowArgs& args) {
  const bool out =
      op == CollectiveOp::kReduceScatter || op == CollectiveOp::kReceive || op == CollectiveOp::kScatter;
  return CountOr<int64_t>(out ? args.out_elements : args.in_elements, -1);
}

// PyTorch names a peer by its rank in the world. Without a list of members, the number stays as it is.
int32_t RankInGroup(const capture::Group& group, int32_t world_rank) {
  const auto it = std::find(group.members.begin(), group.members.end(), RankId(world_rank));
  return it == group.members.end() ? world_rank : static_cast<int32_t>(it - group.members.begin());
}

void SetPeers(const RowArgs& args, capture::Collective& c) {
  const int32_t source = CountOr<int32_t>(args.source_rank, -1);
  const int32_t destination = CountOr<int32_t>(args.destination_rank, -1);
  switch (c.op) {
    case CollectiveOp::kSend:
      c.peer = destination;
      break;
    case CollectiveOp::kReceive:
      c.peer = source;
      break;
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kScatter:
      c.root = source;
      break;
    case CollectiveOp::kReduce:
    case CollectiveOp::kGather:
      c.root = destination >= 0 ? destination : source;
      break;
    default:
      break;
  }
}

}  // namespace

capture::Collective KinetoCollectives::Read(const RowArgs& args) {
  capture::Collective c;
  c.op = capture::CollectiveOpFromText(Unquoted(args.collective));
  // Durations of an all-to-all are comparable only if each rank sends the same amount of data to every peer.
  if (c.op == CollectiveOp::kAllToAllV || c.op == CollectiveOp::kAllToAll) {
    const bool equal =
        AllEqual(NumberList(Unquoted(args.in_split))) && AllEqual(NumberList(Unquoted(args.out_split)));
    if (!equal) c.op = CollectiveOp::kAllToAllV;
  }
  c.group = GroupOf(args);
  c.sequence = CountOr<int64_t>(args.sequence, -1);
  if (c.sequence >= 0) c.source = capture::MatchSource::kGroupSequence;
  if (!args.nccl_sequence.empty()) {
    c.sequence = CountOr<int64_t>(args.nccl_sequence, -1);
    if (c.sequence >= 0) c.source = capture::MatchSource::kNcclSequence;
  }
  const std::string_view dtype = Unquoted(args.dtype);
  c.datatype = file_.strings.Intern(dtype);
  const int64_t elements = CountedElements(c.op, args);
  const int size = capture::ElementBytes(dtype);
  if (elements < 0 || size == 0 || __builtin_mul_overflow(elements, int64_t{size}, &c.bytes)) c.bytes = -1;
  const auto received = CountOr<int64_t>(args.out_elements, -1);
  if (c.op != CollectiveOp::kAllToAllV || received < 0 || size == 0 ||
      __builtin_mul_overflow(received, int64_t{size}, &c.received_bytes))
    c.received_bytes = -1;
  SetPeers(args, c);
  if (c.group != capture::kNone) {
    c.peer = RankInGroup(file_.groups[c.group], c.peer);
    c.root = RankInGroup(file_.groups[c.group], c.root);
  }
  return c;
}

uint32_t KinetoCollectives::GroupOf(const RowArgs& args) {
  if (args.group_name.empty() && args.group_ranks.empty()) return capture::kNone;
  // Disjoint sets of ranks may have the same group name, so the members are part of the key.
  std::string key =
      absl::StrCat(std::string(Unquoted(args.group_name)), " ", std::string(Unquoted(args.group_ranks)));
  auto [it, fresh] = groups_.try_emplace(key, static_cast<uint32_t>(file_.groups.size()));
  if (!fresh) return it->second;
  capture::Group group{.key = std::move(key)};
  const std::string_view description = Unquoted(args.group_description);
  group.name = description.empty() || description == "undefined" ? Unquoted(args.group_name) : description;
  group.size = std::max(CountOr<int32_t>(args.group_size, 0), 0);
  if (const auto ranks = NumberList(Unquoted(args.group_ranks))) {
    for (int64_t rank : *ranks) {
      if (std::in_range<int32_t>(rank) && rank >= 0)
        group.members.push_back(RankId(static_cast<int32_t>(rank)));
    }
    // "[0, 1]" with a group size of 64 is a shortened list.
    if (group.size != 0 && group.members.size() != static_cast<size_t>(group.size)) group.members.clear();
  }
  file_.groups.push_back(std::move(group));
  return it->second;
}

}  // namespace lockstep::formats
