// Reads the JSON form.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/log/clean_text.h"
#include "base/rpc/status_macros.h"
#include "formats/ras/ras.h"
#include "formats/ras/ras_counts.h"
#include "simdjson.h"

namespace lockstep::formats {
namespace {

using analysis::RasCommunicator;
using analysis::RasMember;
using analysis::RasState;
using simdjson::dom::array;
using simdjson::dom::object;

// ncclResult_t.
constexpr int64_t kNcclSuccess = 0, kNcclInProgress = 7;

absl::Status Problem(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("RAS's JSON ", what));
}

int64_t NumberOf(const object& from, const char* name, int64_t otherwise) {
  int64_t number = 0;
  return from[name].get(number) == simdjson::SUCCESS ? number : otherwise;
}
int32_t SmallNumberOf(const object& from, const char* name) {
  const int64_t number = NumberOf(from, name, -1);
  return number < 0 || number > std::numeric_limits<int32_t>::max() ? -1 : static_cast<int32_t>(number);
}
bool FlagOf(const object& from, const char* name) {
  bool flag = false;
  return from[name].get(flag) == simdjson::SUCCESS && flag;
}
std::string TextOf(const object& from, const char* name) {
  std::string_view text;
  return from[name].get(text) == simdjson::SUCCESS ? CleanText(text, kLongestRasText) : std::string();
}

RasMember::Status StatusOf(const object& rank) {
  using Status = RasMember::Status;
  object status;
  if (rank["status"].get(status) != simdjson::SUCCESS) return Status::kUnknown;
  if (FlagOf(status, "abort_flag")) return Status::kAborted;
  const int64_t start = NumberOf(status, "init_state", kNcclSuccess);
  const int64_t error = NumberOf(status, "async_error", kNcclSuccess);
  if (start != kNcclSuccess && start != kNcclInProgress) return Status::kFailed;
  if (error != kNcclSuccess && error != kNcclInProgress) return Status::kFailed;
  if (FlagOf(status, "finalize_called") || FlagOf(status, "destroy_flag")) return Status::kFinalizing;
  return start == kNcclSuccess ? Status::kRunning : Status::kStarting;
}

RasMember::Status MissingStatusOf(const object& rank) {
  object status;
  if (rank["status"].get(status) != simdjson::SUCCESS) return RasMember::Status::kUnknown;
  if (FlagOf(status, "considered_dead")) return RasMember::Status::kDead;
  return FlagOf(status, "unresponsive") ? RasMember::Status::kUnresponsive : RasMember::Status::kNotInIt;
}

// Returns the member's number, or -1 if it has none.
int32_t AddMember(const object& rank, RasMember::Status status, RasCommunicator& communicator) {
  const int32_t number = SmallNumberOf(rank, "rank");
  if (number < 0 || number >= communicator.size) return -1;
  RasMember& member = communicator.members[number];
  member.process.host = TextOf(rank, "host");
  member.process.pid = std::max(SmallNumberOf(rank, "pid"), 0);
  member.status = status;
  return number;
}

absl::Status AddCounts(const object& rank, int32_t number, RasCommunicator& communicator) {
  object counts;
  if (rank["collective_counts"].get(counts) != simdjson::SUCCESS)
    return Problem("has a rank without collective_counts");
  for (const simdjson::dom::key_value_pair field : counts) {
    uint64_t count = 0;
    if (field.value.get(count) != simdjson::SUCCESS) return Problem("has a count that is not a number");
    analysis::RasOperation* operation = RasOperationOf(communicator, field.key);
    analysis::RasGroup* group = operation == nullptr ? nullptr : RasGroupOf(*operation, count);
    if (group == nullptr) return Problem("has more different counts than a communicator that waits");
    group->members.push_back(number);
  }
  return absl::OkStatus();
}

absl::StatusOr<RasCommunicator> CommunicatorOf(const object& from) {
  RasCommunicator communicator;
  std::string_view hash;
  if (from["hash"].get(hash) != simdjson::SUCCESS ||
      !absl::SimpleHexAtoi(absl::string_view(hash.data(), hash.size()), &communicator.hash))
    return Problem("has a communicator without a hash");
  communicator.size = SmallNumberOf(from, "size");
  if (communicator.size < 1 || communicator.size > kLargestRasCommunicator)
    return Problem("has a communicator without a size");
  array ranks, missing;
  if (from["ranks"].get(ranks) != simdjson::SUCCESS) return Problem("has a communicator without ranks");
  for (const simdjson::dom::element element : ranks) {
    object rank;
    if (element.get(rank) != simdjson::SUCCESS) return Problem("has a rank that is not an object");
    const int32_t number = AddMember(rank, StatusOf(rank), communicator);
    if (number < 0) return Problem("has a rank without its number");
    LOCKSTEP_RETURN_IF_ERROR(AddCounts(rank, number, communicator));
  }
  if (from["missing_ranks"].get(missing) == simdjson::SUCCESS) {
    for (const simdjson::dom::element element : missing) {
      object rank;
      if (element.get(rank) != simdjson::SUCCESS) return Problem("has a missing rank that is not an object");
      if (AddMember(rank, MissingStatusOf(rank), communicator) < 0)
        return Problem("has a missing rank without its number");
    }
  }
  CompleteRasGroups(communicator);
  return communicator;
}

}  // namespace

absl::StatusOr<RasState> ParseRasJson(std::string_view answer) {
  simdjson::dom::parser parser;
  object document;
  if (parser.parse(answer.data(), answer.size()).get(document) != simdjson::SUCCESS)
    return Problem("is not valid");
  RasState state;
  state.is_complete = true;
  state.nccl_version = TextOf(document, "nccl_version");
  array communicators;
  if (state.nccl_version.empty() || document["communicators"].get(communicators) != simdjson::SUCCESS)
    return Problem("lacks nccl_version or communicators");
  for (const simdjson::dom::element element : communicators) {
    object from;
    if (element.get(from) != simdjson::SUCCESS) return Problem("has a communicator that is not an object");
    LOCKSTEP_ASSIGN_OR_RETURN(RasCommunicator communicator, CommunicatorOf(from));
    state.communicators.push_back(std::move(communicator));
  }
  return state;
}

}  // namespace lockstep::formats
