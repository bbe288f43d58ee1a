#include "formats/files/job_files.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "formats/files/trace_spans.h"

namespace lockstep::formats {
namespace {

// The places of a rank's files, in order of the list.
using FilesOfRanks = std::map<RankId, std::vector<size_t>>;

std::string_view FolderOf(const JobFile& file) {
  const std::string_view path(file.from.path);
  return path.substr(0, path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/'));
}

class FileChoice {
 public:
  explicit FileChoice(std::span<const JobFile> files) : files_(files) {}

  absl::StatusOr<ChosenFiles> Take(SpanChoice span) {
    if (absl::Status s = DropUnusable(); !s.ok()) return s;
    DropTruncated();
    NameRanks();
    if (absl::Status s = KeepOneSpan(span); !s.ok()) return s;
    return std::move(chosen_);
  }

 private:
  // Leaves out unusable files of a folder, such as a report, with a note. An unusable file is an error if the
  // user named it or if it is the only one.
  absl::Status DropUnusable() {
    std::string first_reason;
    for (size_t i = 0; i < files_.size(); ++i) {
      const JobFile& file = files_[i];
      if (file.unusable.empty()) {
        chosen_.places.push_back(i);
        continue;
      }
      std::string sentence = absl::StrCat(file.from.path, file.unusable);
      if (file.from.named || files_.size() == 1) return absl::InvalidArgumentError(sentence);
      if (first_reason.empty()) first_reason = sentence;
      chosen_.notes.push_back(absl::StrCat(sentence, " (left out)"));
    }
    if (!chosen_.places.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("none of the ", files_.size(), " files can be used; the first: ", first_reason));
  }

  // A truncated trace beside whole ones would look like a rank that did less work.
  void DropTruncated() {
    const auto whole = [this](size_t place) { return files_[place].broken_off.empty(); };
    if (std::none_of(chosen_.places.begin(), chosen_.places.end(), whole)) return;
    std::erase_if(chosen_.places, [&](size_t place) {
      if (whole(place)) return false;
      const JobFile& file = files_[place];
      chosen_.notes.push_back(absl::StrCat(file.from.path, " is damaged (", file.broken_off,
                                           ") and left out; give it alone to read it up to the damage"));
      return true;
    });
  }

  // A worker without a number gets its place in the list of workers.
  void NameRanks() {
    absl::flat_hash_map<std::string, int32_t> places;
    for (const size_t i : chosen_.places) {
      const JobFile& file = files_[i];
      const int32_t place =
          places.try_emplace(Worker(file), static_cast<int32_t>(places.size())).first->second;
      if (file.declared_rank) {
        chosen_.ranks.push_back({*file.declared_rank, "distributedInfo"});
      } else if (const auto rank = RankOf(file.from)) {
        chosen_.ranks.push_back({*rank, "file name"});
      } else {
        chosen_.ranks.push_back({RankId(place), "position"});
      }
    }
  }

  absl::Status KeepOneSpan(SpanChoice span) {
    FilesOfRanks of_rank;
    for (size_t i = 0; i < chosen_.places.size(); ++i) of_rank[chosen_.ranks[i].rank].push_back(i);
    if (of_rank.size() == chosen_.places.size()) return CheckOnlySpan(span);
    if (absl::Status s = CheckTimesDiffer(of_rank); !s.ok()) return s;
    std::vector<SpanFile> span_files;
    for (size_t i = 0; i < chosen_.places.size(); ++i)
      span_files.push_back({chosen_.ranks[i].rank, FileAt(i).rows});
    const auto spans = DivideIntoSpans(span_files);
    auto one = ChooseSpan(span_files, spans, span);
    if (!one.ok()) return one.status();
    if (span.kind != SpanChoice::Kind::kNumber) {
      if (absl::Status s = CheckOneJob(of_rank, spans.size()); !s.ok()) return s;
    }
    chosen_.span_note = one->note;
    chosen_.notes.push_back(std::move(one->note));
    Keep(spans[one->span]);
    return absl::OkStatus();
  }

  absl::Status CheckTimesDiffer(const FilesOfRanks& of_rank) const {
    for (const auto& [rank, members] : of_rank) {
      for (size_t b = 1; b < members.size(); ++b) {
        for (size_t a = 0; a < b; ++a) {
          const JobFile& first = FileAt(members[a]);
          const JobFile& second = FileAt(members[b]);
          const bool one_worker = Worker(first) == Worker(second);
          if (one_worker && !AtSameTime(first.rows, second.rows)) continue;
          const std::string states =
              chosen_.ranks[members[b]].source == "distributedInfo" ? "both state" : "would both be";
          const std::string remedy = FolderOf(first) == FolderOf(second)
                                         ? "give one file per rank"
                                         : "if these are two jobs, give the folder of one";
          return absl::InvalidArgumentError(absl::StrCat(first.from.path, " and ", second.from.path, " ",
                                                         states, " rank ", rank.value(),
                                                         one_worker ? " at the same time; " : "; ", remedy));
        }
      }
    }
    return absl::OkStatus();
  }

  // Runs of different processes in different folders are not spans of one job, unless the user chose one.
  absl::Status CheckOneJob(const FilesOfRanks& of_rank, size_t spans) const {
    for (const auto& [rank, members] : of_rank) {
      const JobFile& first = FileAt(members.front());
      for (const size_t member : members) {
        const JobFile& other = FileAt(member);
        if (first.pid == 0 || other.pid == 0 || first.pid == other.pid) continue;
        if (FolderOf(first) == FolderOf(other)) continue;
        return absl::InvalidArgumentError(
            absl::StrCat(first.from.path, " and ", other.from.path, " are of two jobs: both are rank ",
                         rank.value(), ", of processes ", first.pid, " and ", other.pid,
                         "; give the folder of one job, or choose a span with --span 1..", spans));
      }
    }
    return absl::OkStatus();
  }

  void Keep(const std::vector<size_t>& members) {
    ChosenFiles kept;
    for (const size_t i : members) {
      kept.places.push_back(chosen_.places[i]);
      kept.ranks.push_back(std::move(chosen_.ranks[i]));
    }
    chosen_.places = std::move(kept.places);
    chosen_.ranks = std::move(kept.ranks);
  }

  static std::string Worker(const JobFile& file) { return WorkerOf(file.from, file.declared_rank); }
  // `i` counts the files that are still chosen.
  const JobFile& FileAt(size_t i) const { return files_[chosen_.places[i]]; }

  std::span<const JobFile> files_;
  ChosenFiles chosen_;
};

}  // namespace

absl::StatusOr<ChosenFiles> ChooseFiles(std::span<const JobFile> files, SpanChoice span) {
  return FileChoice(files).Take(span);
}

absl::Status CheckWorldSizes(std::span<const JobFile> files) {
  const JobFile* known = nullptr;
  for (const JobFile& file : files) {
    if (file.world_size == 0) continue;
    if (known == nullptr) known = &file;
    if (known->world_size == file.world_size) continue;
    return absl::InvalidArgumentError(absl::StrCat(known->from.path, " is of a job with ", known->world_size,
                                                   " ranks and ", file.from.path, " of one with ",
                                                   file.world_size, "; give the traces of one job"));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::formats
