// ReadInput(): reads the files and folders of a command line into one capture.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "capture/infer/infer_groups.h"
#include "capture/model/held_bytes.h"
#include "capture/model/row_limit.h"
#include "capture/store/records.h"
#include "formats/common/byte_source.h"
#include "formats/common/foreign_files.h"
#include "formats/common/nvtx_frames.h"
#include "formats/files/trace_files.h"
#include "formats/files/trace_spans.h"
#include "formats/kineto/kineto_capture.h"
#include "formats/kineto/kineto_reader.h"
#include "formats/nsys/nsys_input.h"
#include "formats/nsys/sqlite_database.h"
#include "formats/nvprof/nvprof_reader.h"
#include "formats/timeline/timeline_reader.h"

namespace lockstep::formats {
namespace {

struct Opened {
  TraceFile from;
  OpenedTrace trace;
};

absl::StatusOr<std::vector<Opened>> OpenAll(const std::vector<TraceFile>& files) {
  std::vector<Opened> opened;
  for (const TraceFile& file : files) {
    auto trace = OpenTrace(file.path);
    if (!trace.ok()) return trace.status();
    opened.push_back({file, std::move(*trace)});
  }
  return opened;
}

// Adds up the bytes read from all files.
class Progress {
 public:
  Progress(const ReadOptions& options, uint64_t total) : options_(options), total_(total) {}
  void Advance(uint64_t bytes) {
    const uint64_t done = done_ += bytes;
    if (options_.progress) options_.progress(done, total_);
  }

 private:
  const ReadOptions& options_;
  uint64_t total_;
  std::atomic<uint64_t> done_{0};
};

// Makes all but the latest file of each worker thin, so that memory holds one span.
class LatestOnly {
 public:
  // `files` and `overflow` outlive it; `overflow` may be null. Any thread may call Add(), once per file,
  // after it was read.
  LatestOnly(std::vector<ReadFile>& files, capture::RowOverflow* overflow)
      : files_(files), overflow_(overflow) {}
  void Add(size_t place) {
    MutexLock lock(&mutex_);
    const ReadFile& file = files_[place];
    const auto [it, fresh] = latest_.try_emplace(WorkerOf(file.from, file.content.rank), place);
    if (fresh) return;
    const bool later = BeginOf(file) > BeginOf(files_[it->second]);
    ReadFile& other = files_[later ? std::exchange(it->second, place) : place];
    if (overflow_ != nullptr) RemoveRows(other.content, *overflow_);
    MakeThin(other);
  }

 private:
  static double BeginOf(const ReadFile& file) {
    return static_cast<double>(file.content.base.ns()) + static_cast<double>(file.content.window.start.ns());
  }
  std::vector<ReadFile>& files_;
  capture::RowOverflow* const overflow_;
  Mutex mutex_;
  std::map<std::string, size_t> latest_ ABSL_GUARDED_BY(mutex_);
};

enum class Keep { kAll, kLatestOfEachWorker };

std::vector<ReadFile> ReadAll(std::vector<Opened> opened, Keep keep, const ReadOptions& options) {
  uint64_t total = 0;
  for (const Opened& o : opened) total += o.trace.bytes;
  Progress progress(options, total);
  const size_t threads = std::max(1, options.threads);
  // With at least half as many files as threads, each file has one thread, whose caches keep a block from
  // inflating to parsing. With fewer files, each file is inflated and parsed on two threads.
  const ReadMode mode = 2 * opened.size() <= threads ? ReadMode::kPipeline : ReadMode::kOneThread;
  std::vector<size_t> largest_first(opened.size());
  for (size_t i = 0; i < opened.size(); ++i) largest_first[i] = i;
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [&opened](size_t a, size_t b) { return opened[a].trace.bytes > opened[b].trace.bytes; });
  std::vector<ReadFile> files(opened.size());
  LatestOnly latest(files, options.overflow);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t turn = next++; turn < opened.size(); turn = next++) {
      Opened& o = opened[largest_first[turn]];
      uint64_t reported = 0;
      KinetoFile content = ReadKineto(*o.trace.source, mode, options.host, [&](uint64_t consumed) {
        progress.Advance(consumed - reported);
        reported = consumed;
      });
      o.trace.source.reset();
      if (options.overflow != nullptr) MoveRows(content, *options.overflow);
      files[largest_first[turn]] = {std::move(o.from), std::move(content)};
      if (keep == Keep::kLatestOfEachWorker) latest.Add(largest_first[turn]);
    }
  };
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < std::min(threads, opened.size()); ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  return files;
}

// Returns the name of an import: the folder of the files, or the single file.
std::string NameOf(const std::vector<TraceFile>& files) {
  const TraceFile& first = files.front();
  const std::string whole =
      files.size() == 1 ? first.path : first.path.substr(0, first.path.size() - first.inside.size()) + "/";
  // Without a working directory, no path can be made absolute.
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(whole, error).lexically_normal();
  if (error) path = whole;
  return files.size() == 1 ? path.filename().string() : path.parent_path().filename().string();
}

absl::StatusOr<capture::Capture> ReadOneTimeline(Opened& opened, const ReadOptions& options) {
  const uint64_t total = opened.trace.bytes;
  return ReadTimeline(
      *opened.trace.source, opened.from.path,
      [&options, total](uint64_t done) {
        if (options.progress) options.progress(done, total);
      },
      options.overflow);
}

// Returns the timeline among the files, or null. A timeline holds a whole job, so other files beside it are
// an error.
absl::StatusOr<Opened*> FindTimeline(std::vector<Opened>& opened) {
  for (Opened& o : opened) {
    if (!IsTimeline(Peek(o.trace.source, kTimelineMagic.size()))) continue;
    if (opened.size() == 1) return &o;
    return absl::InvalidArgumentError(
        absl::StrCat(o.from.path, " is the timeline of a whole job; give it alone, without other traces"));
  }
  return nullptr;
}

// A trace of another program in another folder than the exports is of another job.
absl::Status CheckOneFolder(const std::vector<NsysInput>& exports, std::vector<Opened>& others) {
  constexpr size_t kHeader = 64 * 1024;
  const auto folder_of = [](const TraceFile& file) { return file.path.substr(0, file.path.rfind('/') + 1); };
  for (Opened& o : others) {
    const bool beside = std::any_of(exports.begin(), exports.end(), [&](const NsysInput& input) {
      return folder_of(input.from) == folder_of(o.from);
    });
    if (beside || Peek(o.trace.source, kHeader).find("\"traceEvents\"") == std::string::npos) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(exports.front().from.path, " is an nsys export and ", o.from.path,
                     ", in another folder, is a trace of PyTorch's profiler; give the "
                     "folder of one job"));
  }
  return absl::OkStatus();
}

// nullopt: the files include no nsys export. Other traces beside an export are left out if they were found in
// a folder, because the user did not choose between them. If the command line names them, they are an error.
absl::StatusOr<std::optional<capture::Capture>> ReadNsysAmong(std::vector<Opened>& opened,
                                                              const ReadOptions& options) {
  std::vector<NsysInput> inputs;
  std::vector<Opened> others;
  for (Opened& o : opened) {
    if (IsSqlite(Peek(o.trace.source, kSqliteMagicBytes))) {
      inputs.push_back({o.from, std::move(o.trace.source), o.trace.bytes});
    } else {
      others.push_back(std::move(o));
    }
  }
  if (inputs.empty()) {
    opened = std::move(others);
    return std::nullopt;
  }
  for (const Opened& o : others) {
    if (!o.from.named) continue;
    return absl::InvalidArgumentError(absl::StrCat(o.from.path, " is not an nsys export but ",
                                                   inputs.front().from.path, " is; give traces of one kind"));
  }
  if (absl::Status s = CheckOneFolder(inputs, others); !s.ok()) return s;
  auto capture = ReadNsysInput(std::move(inputs), options);
  if (!capture.ok()) return capture.status();
  for (const Opened& o : others)
    capture->notes.push_back(absl::StrCat(o.from.path, " is not an nsys export (left out)"));
  return std::move(*capture);
}

// nullopt: the files include no trace of nvprof. Each is of one process on a clock of its own, so it is read
// alone. Beside traces that were found in a folder, it is left out.
absl::StatusOr<std::optional<capture::Capture>> ReadNvprofAmong(std::vector<Opened>& opened,
                                                                std::vector<std::string>& left_out,
                                                                const ReadOptions& options) {
  std::vector<Opened> traces;
  std::vector<Opened> others;
  for (Opened& o : opened)
    (IsNvprofText(Peek(o.trace.source, kForeignBytes)) ? traces : others).push_back(std::move(o));
  opened = std::move(others);
  if (traces.empty()) return std::nullopt;
  Opened& first = traces.front();
  if (traces.size() + opened.size() > 1) {
    const std::string sentence = absl::StrCat(first.from.path, " is output of nvprof, of one process");
    if (opened.empty() || first.from.named)
      return absl::InvalidArgumentError(absl::StrCat(sentence, "; give it alone"));
    left_out.push_back(sentence);
    return std::nullopt;
  }
  auto capture = ReadNvprof(*first.trace.source, first.from, [&options, &first](uint64_t done) {
    if (options.progress) options.progress(done, first.trace.bytes);
  });
  if (!capture.ok()) return capture.status();
  if (options.overflow != nullptr)
    options.overflow->Add(capture::CountAnalysedRows(*capture), capture::HeldBytesOf(*capture).rows);
  return std::move(*capture);
}

absl::StatusOr<capture::Capture> ReadKinetoFiles(std::vector<Opened> opened, const ReadOptions& options) {
  const JoinOptions join{
      .span = options.span,
      .chose_span = options.chose_span,
      .overflow = options.overflow,
      .read_again = [&options](const std::vector<TraceFile>& files) -> absl::StatusOr<std::vector<ReadFile>> {
        auto again = OpenAll(files);
        if (!again.ok()) return absl::InvalidArgumentError(again.status().message());
        return ReadAll(std::move(*again), Keep::kAll, options);
      }};
  return JoinKinetoFiles(ReadAll(std::move(opened), Keep::kLatestOfEachWorker, options), join);
}

// Takes the files that another program must convert out of `opened`, and returns a sentence about each. An
// error: the command line names one, or there are no others.
absl::StatusOr<std::vector<std::string>> TakeForeign(std::vector<Opened>& opened) {
  std::vector<std::string> sentences;
  std::vector<Opened> others;
  for (Opened& o : opened) {
    const std::string why = WhyForeign(o.from.path, Peek(o.trace.source, kForeignBytes));
    if (why.empty()) {
      others.push_back(std::move(o));
      continue;
    }
    sentences.push_back(absl::StrCat(o.from.path, why));
    if (o.from.named) return absl::InvalidArgumentError(sentences.back());
  }
  opened = std::move(others);
  if (opened.empty() && !sentences.empty()) {
    const size_t more = sentences.size() - 1;
    return absl::InvalidArgumentError(absl::StrCat(
        sentences.front(), more == 0 ? "" : absl::StrCat(" (and likewise for ", more, " more)")));
  }
  return sentences;
}

// The files must be of one kind. `left_out` receives sentences about files of another kind.
absl::StatusOr<capture::Capture> ReadOneKind(std::vector<Opened> opened, std::vector<std::string>& left_out,
                                             const ReadOptions& options) {
  auto nvprof = ReadNvprofAmong(opened, left_out, options);
  if (!nvprof.ok()) return nvprof.status();
  if (*nvprof) {
    if (absl::Status s = CheckOnlySpan(options.span); !s.ok()) return s;
    return std::move(**nvprof);
  }
  auto nsys = ReadNsysAmong(opened, options);
  if (!nsys.ok()) return nsys.status();
  if (*nsys) {
    if (absl::Status s = CheckOnlySpan(options.span); !s.ok()) return s;
    return std::move(**nsys);
  }
  const auto timeline = FindTimeline(opened);
  if (!timeline.ok()) return timeline.status();
  if (*timeline == nullptr) return ReadKinetoFiles(std::move(opened), options);
  if (absl::Status s = CheckOnlySpan(options.span); !s.ok()) return s;
  return ReadOneTimeline(**timeline, options);
}

absl::StatusOr<capture::Capture> ReadOpened(std::vector<Opened> opened, const ReadOptions& options) {
  auto foreign = TakeForeign(opened);
  if (!foreign.ok()) return foreign.status();
  std::vector<std::string> left_out;
  auto capture = ReadOneKind(std::move(opened), left_out, options);
  if (!capture.ok()) {
    // Beside a report that lacks only its export, a file that is not a trace is not the point.
    return foreign->empty() ? capture.status() : absl::InvalidArgumentError(foreign->front());
  }
  foreign->insert(foreign->end(), left_out.begin(), left_out.end());
  for (const std::string& sentence : *foreign)
    capture->notes.push_back(absl::StrCat(sentence, " (left out)"));
  return capture;
}

}  // namespace

absl::StatusOr<capture::Capture> LoadCapture(const std::string& folder, const ReadOptions& options) {
  auto recorded = capture::ReadRecords(folder, options.progress, options.overflow);
  if (!recorded.ok()) return recorded.status();
  capture::Capture& capture = recorded->capture;
  std::vector<Opened> opened;
  std::vector<size_t> place_of;  // for each opened trace, its place among the recorded traces
  for (size_t i = 0; i < recorded->traces.size(); ++i) {
    capture::RecordedTrace& trace = recorded->traces[i];
    if (trace.path.empty()) continue;
    auto source = OpenTrace(trace.path);
    if (source.ok()) {
      opened.push_back({{trace.path, true}, std::move(*source)});
      place_of.push_back(i);
    } else {
      trace.path.clear();
      trace.text = std::string(source.status().message());
    }
  }
  std::vector<ReadFile> files(recorded->traces.size());
  std::vector<ReadFile> read = ReadAll(std::move(opened), Keep::kAll, options);
  for (size_t i = 0; i < read.size(); ++i) files[place_of[i]] = std::move(read[i]);
  JoinRecordedTraces(std::move(recorded->traces), std::move(files), options.overflow, capture);
  if (absl::Status s = capture::CheckAnalysedRows(capture::CountAnalysedRows(capture)); !s.ok()) return s;
  capture::Finish(capture, options.overflow);
  capture::InferGroups(capture);
  if (options.host == HostDetail::kFrames) AddNvtxFrames(capture);
  return std::move(capture);
}

absl::StatusOr<capture::Capture> ReadInput(std::span<const std::string> paths, const ReadOptions& options) {
  auto input = FindInputFiles(paths);
  if (!input.ok()) return input.status();
  if (!input->captures.empty()) {
    if (input->captures.size() == 1 && input->traces.empty()) {
      if (absl::Status s = CheckOnlySpan(options.span); !s.ok()) return s;
      return LoadCapture(input->captures.front(), options);
    }
    return absl::InvalidArgumentError(absl::StrCat(
        input->captures.front(), " is a capture; give it alone, without other captures or traces"));
  }
  auto opened = OpenAll(input->traces);
  if (!opened.ok()) return absl::InvalidArgumentError(opened.status().message());
  auto capture = ReadOpened(std::move(*opened), options);
  if (!capture.ok()) return capture.status();
  if (capture->id.empty()) capture->id = NameOf(input->traces);
  capture->notes.insert(capture->notes.end(), input->notes.begin(), input->notes.end());
  if (absl::Status s = capture::CheckAnalysedRows(capture::CountAnalysedRows(*capture)); !s.ok()) return s;
  capture::Finish(*capture, options.overflow);
  capture::InferGroups(*capture);
  if (options.host == HostDetail::kFrames) AddNvtxFrames(*capture);
  return capture;
}

}  // namespace lockstep::formats
