// Reads the text form, line by line. A heading says what the lines below it mean.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/log/clean_text.h"
#include "formats/ras/ras.h"
#include "formats/ras/ras_counts.h"

namespace lockstep::formats {
namespace {

using analysis::RasCommunicator;
using analysis::RasMember;
using analysis::RasProcess;
using analysis::RasState;
using Status = RasMember::Status;

constexpr size_t kColumns = 8;  // of the table of groups
constexpr char kVersion[] = "NCCL version ";

std::string Clean(absl::string_view text) {
  return CleanText(std::string_view(text.data(), text.size()), kLongestRasText);
}

Status StatusNamed(absl::string_view word) {
  if (word == "INIT") return Status::kStarting;
  if (word == "RUNNING") return Status::kRunning;
  if (word == "FINALIZE") return Status::kFinalizing;
  if (word == "ABORT") return Status::kAborted;
  // Before 2.26 a rank without data was UNKNOWN, whatever the reason.
  return word == "NOCOMM" || word == "UNKNOWN" ? Status::kNotInIt : Status::kUnknown;
}

// Takes the number at the front of the text, and one space behind it.
bool TakeNumber(absl::string_view& text, uint64_t& number) {
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  if (digits == 0 || !absl::SimpleAtoi(text.substr(0, digits), &number)) return false;
  text.remove_prefix(digits);
  absl::ConsumePrefix(&text, " ");
  return true;
}
bool TakeSmallNumber(absl::string_view& text, int32_t& number) {
  uint64_t read = 0;
  if (!TakeNumber(text, read) || read >= static_cast<uint64_t>(kLargestRasCommunicator)) return false;
  number = static_cast<int32_t>(read);
  return true;
}

// Finds "process 12 on node 10.0.0.1" in any case of its first letter.
std::optional<RasProcess> ProcessIn(absl::string_view text) {
  size_t at = text.find("rocess ");
  if (at == absl::string_view::npos) return std::nullopt;
  text.remove_prefix(at + 7);
  uint64_t pid = 0;
  if (!TakeNumber(text, pid) || pid > INT32_MAX || !absl::ConsumePrefix(&text, "on node "))
    return std::nullopt;
  return RasProcess{Clean(text.substr(0, text.find(' '))), static_cast<int32_t>(pid)};
}

class TextReader {
 public:
  absl::StatusOr<RasState> Read(absl::string_view answer) {
    bool whole = false;
    for (absl::string_view line : absl::StrSplit(answer, '\n')) {
      absl::ConsumeSuffix(&line, "\r");
      if (absl::ConsumePrefix(&line, kVersion)) {
        state_.nccl_version = Clean(line.substr(0, line.find(' ')));
        continue;
      }
      // The last heading. All but the version may be missing in an answer that ends early.
      whole = whole || line == "Warnings";
      if (absl::StartsWith(line, "#")) {
        StartCommunicator(line);
      } else if (absl::ConsumePrefix(&line, "  ") && !absl::StartsWith(line, " ")) {
        ReadDetail(line);
      } else if (!line.empty()) {
        ReadHeading(line);
      }
    }
    if (state_.nccl_version.empty())
      return absl::InvalidArgumentError("the answer is not RAS's: it does not begin with NCCL's version");
    if (!whole) return absl::InvalidArgumentError("RAS's text ends early");
    for (RasCommunicator& communicator : state_.communicators) {
      for (auto& [number, member] : communicator.members) {
        const bool dead =
            std::find(state_.dead.begin(), state_.dead.end(), member.process) != state_.dead.end();
        if (member.status == Status::kUnresponsive && dead) member.status = Status::kDead;
      }
      CompleteRasGroups(communicator);
    }
    return std::move(state_);
  }

 private:
  enum class Part : uint8_t { kOther, kSilent, kDead };
  enum class Topic : uint8_t { kOther, kMissing, kStatus, kCounts };

  void ReadHeading(absl::string_view line) {
    communicator_ = nullptr;
    topic_ = Topic::kOther;
    part_ = line == "INCOMPLETE" ? Part::kSilent : line == "DEAD" ? Part::kDead : Part::kOther;
    ReadTableRow(line);
  }

  // "#1-0 (27a079b828ff1a75) MISMATCH".
  void StartCommunicator(absl::string_view line) {
    communicator_ = nullptr;
    topic_ = Topic::kOther;
    line.remove_prefix(1);
    int32_t group = 0;
    if (!TakeSmallNumber(line, group)) return;
    const size_t open = line.find('('), close = line.find(')');
    uint64_t hash = 0;
    if (open == absl::string_view::npos || close == absl::string_view::npos || close < open ||
        !absl::SimpleHexAtoi(line.substr(open + 1, close - open - 1), &hash))
      return;
    topic_ = absl::EndsWith(line, " INCOMPLETE") ? Topic::kMissing : Topic::kOther;
    // One communicator has a paragraph per problem. `by_hash_` has its place.
    const auto [place, added] = by_hash_.emplace(hash, state_.communicators.size());
    if (added) {
      RasCommunicator& made = state_.communicators.emplace_back();
      made.hash = hash;
      const auto size = sizes_.find(group);
      made.size = size == sizes_.end() ? 0 : size->second;
    }
    communicator_ = &state_.communicators[place->second];
  }

  void ReadDetail(absl::string_view line) {
    if (communicator_ == nullptr) {
      const std::optional<RasProcess> process = ProcessIn(line);
      if (process && part_ == Part::kSilent) state_.silent.push_back(*process);
      if (process && part_ == Part::kDead) state_.dead.push_back(*process);
      if (!process) ReadTableRow(line);
      return;
    }
    if (absl::ConsumePrefix(&line, "Communicator ranks have different ")) {
      topic_ = line == "status" ? Topic::kStatus : Topic::kCounts;
      group_.reset();
      if (!absl::ConsumeSuffix(&line, " operation counts")) return;
      function_ = line == "collective" ? std::string() : std::string(line);
    } else if (absl::ConsumePrefix(&line, "The missing rank")) {
      AddListed(line, Status::kUnresponsive);
    } else if (absl::ConsumePrefix(&line, "The unknown rank")) {
      AddListed(line, Status::kNotInIt);
    } else if (absl::ConsumePrefix(&line, "Rank ")) {
      ReadRank(line);
    } else {
      ReadGroup(line);
    }
  }

  void ReadTableRow(absl::string_view line) {
    const std::vector<absl::string_view> columns = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int32_t group = 0, size = 0;
    if (columns.size() == kColumns && absl::SimpleAtoi(columns[0], &group) &&
        absl::SimpleAtoi(columns[4], &size))
      sizes_[group] = size;
  }

  // "s: 1,2,5".
  void AddListed(absl::string_view line, Status status) {
    const size_t colon = line.find(": ");
    if (colon == absl::string_view::npos) return;
    for (absl::string_view text : absl::StrSplit(line.substr(colon + 2), ',')) {
      int32_t number = 0;
      if (TakeSmallNumber(text, number) && text.empty()) communicator_->members[number].status = status;
    }
  }

  // "7 ranks have launched up to operation 42", "2 ranks have status INIT".
  void ReadGroup(absl::string_view line) {
    uint64_t size = 0;
    group_.reset();
    if (!TakeNumber(line, size) || size > static_cast<uint64_t>(kLargestRasCommunicator) ||
        !absl::ConsumePrefix(&line, "ranks have "))
      return;
    if (absl::ConsumePrefix(&line, "status ")) {
      group_status_ = StatusNamed(line);
      return;
    }
    group_ = CountIn(line);
    if (!group_ || topic_ != Topic::kCounts) return;
    if (analysis::RasGroup* group = GroupOf(*group_)) group->size = size;
  }

  // Takes "launched up to operation 42", or "not launched any operations".
  static std::optional<uint64_t> CountIn(absl::string_view line) {
    uint64_t count = 0;
    if (absl::StartsWith(line, "not launched any operations")) return 0;
    if (!absl::ConsumePrefix(&line, "launched up to operation ") || !TakeNumber(line, count))
      return std::nullopt;
    return count;
  }

  // "3 -- GPU 3 managed by process 12 on node 10.0.0.1", "3 has launched up to operation 42 -- GPU …".
  void ReadRank(absl::string_view line) {
    int32_t number = 0;
    if (!TakeSmallNumber(line, number)) return;
    RasMember& member = communicator_->members[number];
    const size_t dashes = line.find("-- ");
    if (dashes != absl::string_view::npos) {
      if (const std::optional<RasProcess> process = ProcessIn(line.substr(dashes))) member.process = *process;
    }
    absl::string_view own = line.substr(0, dashes);
    absl::ConsumeSuffix(&own, " ");
    if (topic_ == Topic::kMissing) {
      member.status = Status::kUnresponsive;
    } else if (topic_ == Topic::kStatus) {
      member.status = absl::ConsumePrefix(&own, "has status ") ? StatusNamed(own) : group_status_;
    } else if (topic_ == Topic::kCounts) {
      const std::optional<uint64_t> count = absl::ConsumePrefix(&own, "has ") ? CountIn(own) : group_;
      analysis::RasGroup* group = count ? GroupOf(*count) : nullptr;
      if (group != nullptr) group->members.push_back(number);
    }
  }

  analysis::RasGroup* GroupOf(uint64_t count) {
    analysis::RasOperation* operation = RasOperationOf(*communicator_, function_);
    return operation == nullptr ? nullptr : RasGroupOf(*operation, count);
  }

  RasState state_;
  std::map<int32_t, int32_t> sizes_;  // by RAS's number of the group of communicators
  std::map<uint64_t, size_t> by_hash_;
  RasCommunicator* communicator_ = nullptr;  // of the paragraph; null: it is about processes
  Part part_ = Part::kOther;
  Topic topic_ = Topic::kOther;
  std::string function_;
  std::optional<uint64_t> group_;  // the count of the listed ranks
  Status group_status_ = Status::kUnknown;
};

}  // namespace

absl::StatusOr<RasState> ParseRasText(std::string_view answer) {
  return TextReader().Read(absl::string_view(answer.data(), answer.size()));
}

}  // namespace lockstep::formats
