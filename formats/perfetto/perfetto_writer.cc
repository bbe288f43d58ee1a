#include "formats/perfetto/perfetto_writer.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json/json_text.h"
#include "formats/perfetto/perfetto_packets.h"
#include "formats/perfetto/perfetto_rank.h"
#include "formats/perfetto/tar_writer.h"

namespace lockstep::formats {
namespace {

using capture::Capture;
using capture::RankData;

// Returns, per instance, the rank of the member that starts last. The instance's flow ends there.
std::vector<uint32_t> LastRanks(const Capture& capture, const capture::Matches& matches,
                                const capture::ClockModel& clock) {
  std::vector<uint32_t> last(matches.instances.size(), capture::kNone);
  for (size_t i = 0; i < matches.instances.size(); ++i) {
    JobTime latest = JobTime::Min();
    for (const capture::Member& m : matches.instances[i].members) {
      const RankData& rank = capture.ranks[m.rank_index];
      const JobTime start =
          clock.ToJob(rank.host, rank.activities[rank.collectives[m.collective].activity].start);
      if (start >= latest) last[i] = m.rank_index;
      latest = std::max(latest, start);
    }
  }
  return last;
}

// Each finding has its own track, because the steps of two findings may overlap.
void WriteFindings(std::span<const TraceFinding> findings, uint32_t sequence, size_t names,
                   PerfettoPackets& out) {
  if (findings.empty()) return;
  out.BeginSequence(sequence);
  const TrackId process = out.ProcessTrack(
      {.pid = static_cast<int32_t>(sequence), .name = "Lockstep: what holds the job back", .sort_index = -1});
  for (size_t i = 0; i < findings.size(); ++i) {
    const TraceFinding& finding = findings[i];
    const TrackId track = out.ChildTrack(process, absl::StrCat("finding ", i + 1), static_cast<int32_t>(i));
    std::vector<Annotation> evidence;
    for (const std::string& e : finding.evidence) evidence.push_back({.name = "evidence", .text = e});
    const NameId name(static_cast<uint32_t>(names + i));
    out.BeginSlice(finding.start,
                   {.track = track, .name = name, .category = "finding", .annotations = evidence},
                   finding.title);
    out.EndSlice(finding.end, track);
  }
}

// Returns the middle of the rank's window. One constant offset per host has its least error there.
HostTime MiddleOf(const RankData& rank) {
  return rank.window.start + Nanos((rank.window.end - rank.window.start).ns() / 2);
}

std::string MemberName(const RankData& rank, uint32_t index) {
  return absl::StrFormat("rank_%05d_%u.pftrace", rank.rank.value(), index);
}

// The findings' file is on the job's clock. The manifest relates each host's clock to it.
constexpr std::string_view kJobFile = "job.pftrace";

// The fields come from Perfetto's reference of the trace manifest, version 1.
std::string Manifest(const Capture& capture, const capture::ClockModel& clock) {
  StringSink sink;
  JsonText json(sink);
  json.Add(
      "{\"perfetto_manifest\": {\n  \"version\": 1,\n  \"trace_time\": {\"clock\": \"BOOTTIME\", \"file\": "
      "\"",
      kJobFile, "\"},\n");
  json.Add("  \"attributes\": {\"lockstep.capture\": ", Quoted{capture.id},
           ", \"lockstep.job\": ", Quoted{capture.job}, "},\n");
  json.Add("  \"files\": [\n    {\"path\": \"", kJobFile, "\", \"machine\": {\"name\": \"job\"}}");
  std::set<uint32_t> related;
  for (uint32_t i = 0; i < capture.ranks.size(); ++i) {
    const RankData& rank = capture.ranks[i];
    const bool named = rank.host < capture.hosts.size() && !capture.hosts[rank.host].name.empty();
    json.Add(",\n    {\"path\": ", Quoted{MemberName(rank, i)},
             ", \"machine\": {\"name\": ", Quoted{named ? capture.hosts[rank.host].name : "unknown host"},
             "}");
    // All files of a machine share its clock, so one relation per host is enough.
    if (related.insert(rank.host).second) {
      const HostTime middle = MiddleOf(rank);
      json.Add(", \"clocks\": {\"clock\": \"BOOTTIME\", \"sync_to\": {\"file\": \"", kJobFile,
               "\", \"clock\": \"BOOTTIME\"}, \"offset_ns\": ",
               clock.ToJob(rank.host, middle).ns() - middle.ns(), "}");
    }
    json.Add("}");
  }
  json.Add("\n  ]\n}}\n");
  (void)json.Finish();
  return sink.text();
}

JobTime StartOf(const Capture& capture, const capture::ClockModel& clock) {
  JobTime start = JobTime::Max();
  for (const RankData& rank : capture.ranks)
    start = std::min(start, clock.ToJob(rank.host, rank.window.start));
  return start;
}

}  // namespace

absl::Status WritePerfetto(const Capture& capture, const capture::Matches& matches,
                           const capture::ClockModel& clock, ByteSink& sink, const PerfettoOptions& options) {
  PerfettoPackets out(sink);
  if (!capture.ranks.empty()) out.ClockSnapshot(StartOf(capture, clock));
  const std::vector<uint32_t> last_ranks = LastRanks(capture, matches, clock);
  const auto ranks = static_cast<uint32_t>(capture.ranks.size());
  for (uint32_t i = 0; i < ranks; ++i) {
    WritePerfettoRank(capture, i, matches, last_ranks, clock, out);
    if (options.progress) options.progress(i + 1, ranks);
  }
  WriteFindings(options.findings, ranks + 1, capture.strings.size(), out);
  return out.Finish();
}

absl::Status WritePerfettoArchive(const Capture& capture, const capture::Matches& matches,
                                  const capture::ClockModel& clock, ByteSink& sink,
                                  const PerfettoOptions& options) {
  TarWriter tar(sink);
  absl::Status status = tar.Add("perfetto_manifest.json", Manifest(capture, clock));
  const auto ranks = static_cast<uint32_t>(capture.ranks.size());
  const auto add = [&](std::string_view name, const auto& write) {
    if (!status.ok()) return;
    StringSink file;
    PerfettoPackets out(file);
    write(out);
    status = out.Finish();
    if (status.ok()) status = tar.Add(name, file.text());
  };
  add(kJobFile, [&](PerfettoPackets& out) {
    if (ranks != 0) out.ClockSnapshot(StartOf(capture, clock));
    WriteFindings(options.findings, ranks + 1, capture.strings.size(), out);
  });
  const capture::ClockModel own_clocks;
  for (uint32_t i = 0; i < ranks; ++i) {
    add(MemberName(capture.ranks[i], i), [&](PerfettoPackets& out) {
      out.ClockSnapshot(own_clocks.ToJob(capture::kNone, capture.ranks[i].window.start));
      WritePerfettoRank(capture, i, matches, {}, own_clocks, out);
    });
    if (options.progress) options.progress(i + 1, ranks);
  }
  return status.ok() ? tar.Finish() : status;
}

}  // namespace lockstep::formats
