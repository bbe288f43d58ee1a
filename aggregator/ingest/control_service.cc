#include "aggregator/ingest/control_service.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/fd.h"
#include "base/files/read_files.h"
#include "base/rpc/status.h"
#include "base/rpc/status_macros.h"
#include "capture/store/records_manifest.h"

namespace lockstep::aggregator {
namespace {

constexpr size_t kChunkBytes = 256 * 1024;
// A daemon of an older release does not answer.
constexpr Nanos kProgressWithin = Nanos::Seconds(2);
constexpr Nanos kProgressWithStacksWithin = Nanos::Seconds(3);
constexpr Nanos kProgressWithRasWithin = Nanos::Millis(4500);

// The manifest comes last, so a receiver that has it has all files.
std::vector<std::string> FilesOf(const std::string& records) {
  std::vector<std::string> names;
  std::error_code error;
  for (const std::filesystem::directory_entry& entry : FolderEntries(records)) {
    const std::string name = entry.path().filename().string();
    if (capture::ParseRecordsFileName(name).has_value() || capture::ParseTraceFileName(name).has_value())
      names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  for (const char* manifest : {capture::kOpenManifestName, capture::kManifestName}) {
    if (std::filesystem::exists(absl::StrCat(records, "/", manifest), error)) names.emplace_back(manifest);
  }
  return names;
}

absl::Status SendFile(const std::string& folder, const std::string& name,
                      grpc::internal::WriterInterface<v1::FetchChunk>& writer, uint64_t& bytes) {
  const std::string path = absl::StrCat(folder, "/", name);
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat file {};
  if (!fd.ok() || ::fstat(fd.get(), &file) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  // A capture has a small file for each of its thousands of ranks, so a chunk is not larger than the file.
  const auto piece_bytes = std::clamp<size_t>(static_cast<size_t>(file.st_size), 1, kChunkBytes);
  v1::FetchChunk chunk;
  chunk.set_name(name);
  while (true) {
    std::string& data = *chunk.mutable_data();
    data.resize(piece_bytes);
    const ssize_t n = ::read(fd.get(), data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
    data.resize(static_cast<size_t>(n));
    bytes += data.size();
    chunk.set_last_of_file(n == 0);
    if (!writer.Write(chunk)) return absl::CancelledError("the caller disconnected");
    if (n == 0) return absl::OkStatus();
    chunk.clear_name();
  }
}

std::string_view Text(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

const char* ResultName(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return "ok";
    case absl::StatusCode::kPermissionDenied:
      return "denied";
    case absl::StatusCode::kNotFound:
      return "not_found";
    case absl::StatusCode::kCancelled:
      return "cancelled";
    default:
      return "failed";
  }
}

grpc::Status NoRequest() { return {grpc::StatusCode::INVALID_ARGUMENT, "the call has no request"}; }

// Writes the events to the caller. Before each sample and each pause it adds what is noticed of the job.
class StreamSink final : public WatchSink {
 public:
  // Adds what was noticed of the job with this name, and the caller may see.
  using AddNoticed = std::function<void(const std::string& job, v1::StatusReply&)>;
  StreamSink(const grpc::ServerContext& context, grpc::internal::WriterInterface<v1::WatchEvent>& writer,
             AddNoticed add_noticed)
      : context_(context), writer_(writer), add_noticed_(std::move(add_noticed)) {}
  bool Write(const v1::WatchEvent& event) override {
    if (event.has_pace()) job_ = event.pace();
    if (event.has_sample() || event.has_pause()) WriteNotice();
    written_ = written_ && writer_.Write(event);
    samples_ += event.has_sample();
    return !left();
  }
  bool left() const override { return !written_ || context_.IsCancelled(); }
  uint64_t samples() const { return samples_; }

 private:
  void WriteNotice() {
    v1::StatusReply reply;
    add_noticed_(job_.job_name(), reply);
    v1::WatchEvent event;
    v1::JobNotice& notice = *event.mutable_notice();
    for (v1::JobSteps& steps : *reply.mutable_jobs()) {
      if (IsTheJob(steps)) *notice.mutable_steps() = std::move(steps);
    }
    for (v1::JobHang& hang : *reply.mutable_hangs()) {
      if (IsTheJob(hang) && hang.ended_unix_ns() == 0) *notice.add_hangs() = std::move(hang);
    }
    written_ = written_ && writer_.Write(event);
  }
  template <typename Noticed>
  bool IsTheJob(const Noticed& noticed) const {
    return absl::StrCat(noticed.uid(), ":", noticed.job()) == job_.job();
  }

  const grpc::ServerContext& context_;
  grpc::internal::WriterInterface<v1::WatchEvent>& writer_;
  const AddNoticed add_noticed_;
  v1::SamplingPace job_;  // the last event with it
  bool written_ = true;
  uint64_t samples_ = 0;
};

Nanos ProgressWithin(const v1::ProgressRequest& request) {
  if (!request.ras().empty()) return kProgressWithRasWithin;
  return request.stacks().empty() ? kProgressWithin : kProgressWithStacksWithin;
}

}  // namespace

grpc::Status ControlService::Refuse(const char* what, RpcMethod method, const grpc::ServerContext& context,
                                    const absl::Status& why) {
  audit_.Refused(what, CallerAt(context), Text(why));
  return calls_.Ended(method, rpc::ToGrpc(why));
}

absl::StatusOr<ControlService::Admitted> ControlService::Admit(const grpc::ServerContext& context) {
  LOCKSTEP_ASSIGN_OR_RETURN(Caller caller, callers_.Of(context));
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<CallSlots::Hold> hold, slots_.Take(caller));
  return Admitted{std::move(caller), std::move(hold)};
}

grpc::Status ControlService::StreamedStatus(
    grpc::ServerContext* context, grpc::ServerUnaryStreamer<v1::StatusRequest, v1::StatusReply>* call) {
  const absl::StatusOr<Admitted> admitted = Admit(*context);
  if (!admitted.ok()) return Refuse("status", RpcMethod::kStatus, *context, admitted.status());
  v1::StatusRequest request;
  if (!call->Read(&request)) return calls_.Ended(RpcMethod::kStatus, NoRequest());
  v1::StatusReply reply = hub_.Status(request.job(), admitted->caller);
  reply.mutable_version()->set_program(version_);
  facts_.describe(*reply.mutable_aggregator());
  facts_.add_noticed(admitted->caller, request.job(), reply);
  for (v1::AbsentDaemon& absent : hub_.daemons().Absent())
    *reply.mutable_aggregator()->add_absent() = std::move(absent);
  call->Write(reply);
  return calls_.Ended(RpcMethod::kStatus, grpc::Status::OK);
}

grpc::Status ControlService::StreamedProgress(
    grpc::ServerContext* context, grpc::ServerSplitStreamer<v1::ProgressRequest, v1::ProgressReply>* call) {
  const absl::StatusOr<Admitted> admitted = Admit(*context);
  if (!admitted.ok()) return Refuse("progress", RpcMethod::kProgress, *context, admitted.status());
  v1::ProgressRequest request;
  if (!call->Read(&request)) return calls_.Ended(RpcMethod::kProgress, NoRequest());
  v1::ProgressReply all = hub_.Progress(request, admitted->caller, ProgressWithin(request));
  for (v1::NodeProgress& node : *all.mutable_nodes()) {
    v1::ProgressReply part;
    *part.add_nodes() = std::move(node);
    if (!call->Write(part)) break;
  }
  all.clear_nodes();
  call->Write(all);
  return calls_.Ended(RpcMethod::kProgress, grpc::Status::OK);
}

grpc::Status ControlService::StreamedTrace(
    grpc::ServerContext* context, grpc::ServerSplitStreamer<v1::TraceRequest, v1::TraceEvent>* call) {
  const absl::StatusOr<Admitted> admitted = Admit(*context);
  if (!admitted.ok()) return Refuse("trace", RpcMethod::kTrace, *context, admitted.status());
  v1::TraceRequest request;
  if (!call->Read(&request)) return calls_.Ended(RpcMethod::kTrace, NoRequest());
  const Caller& caller = admitted->caller;
  if (!request.follow().empty()) return Follow(*context, request.follow(), caller, *call);
  const std::vector<int32_t> ranks(request.ranks().begin(), request.ranks().end());
  AuditLog::Call audited = audit_.Begin("trace", caller.who(),
                                        {{"job", request.job()},
                                         {"ranks", ranks.empty() ? "all" : RankList(ranks)},
                                         {"pids", absl::StrJoin(request.pids(), ",")},
                                         {"activities", request.activities()},
                                         {"framework", request.framework()},
                                         {"via", request.via()},
                                         {"duration_ns", request.duration_ns()},
                                         {"past_ns", request.past_ns()},
                                         {"trigger", request.has_trigger() ? "yes" : "no"}});
  std::string capture, job;
  size_t captured_ranks = 0;
  bool left = false;
  MonoTime left_at;
  const auto emit = [&](const v1::TraceEvent& event) {
    if (event.has_accepted()) {
      capture = event.accepted().capture();
      job = event.accepted().job();
      captured_ranks = static_cast<size_t>(event.accepted().ranks_size());
    }
    if (!left && call->Write(event) && !context->IsCancelled()) return;
    if (!std::exchange(left, true)) left_at = MonoNow();
    hub_.captures().StopUnlessFollowed(capture, left_at);
  };
  v1::TraceEvent last;
  *last.mutable_finished() = hub_.captures().Trace(request, caller, emit, after_);
  emit(last);
  audited.End(OutcomeName(last.finished().outcome()), last.finished().text(),
              {{"capture", capture}, {"captured_job", job}, {"captured_ranks", captured_ranks}});
  return calls_.Ended(RpcMethod::kTrace, grpc::Status::OK);
}

grpc::Status ControlService::Follow(const grpc::ServerContext& context, const std::string& capture,
                                    const Caller& caller,
                                    grpc::internal::WriterInterface<v1::TraceEvent>& events) {
  AuditLog::Call audited = audit_.Begin("follow", caller.who(), {{"capture", capture}});
  const absl::Status followed = hub_.captures().Follow(capture, caller, [&](const v1::TraceEvent& event) {
    return !context.IsCancelled() && events.Write(event);
  });
  audited.End(ResultName(followed), Text(followed));
  return calls_.Ended(RpcMethod::kTrace, rpc::ToGrpc(followed));
}

grpc::Status ControlService::StreamedStop(grpc::ServerContext* context,
                                          grpc::ServerUnaryStreamer<v1::StopRequest, v1::StopReply>* call) {
  const absl::StatusOr<Admitted> admitted = Admit(*context);
  if (!admitted.ok()) return Refuse("stop", RpcMethod::kStop, *context, admitted.status());
  v1::StopRequest request;
  if (!call->Read(&request)) return calls_.Ended(RpcMethod::kStop, NoRequest());
  AuditLog::Call audited = audit_.Begin("stop", admitted->caller.who(), {{"capture", request.capture()}});
  const absl::Status stopped = hub_.captures().Stop(request.capture(), admitted->caller);
  audited.End(ResultName(stopped), Text(stopped));
  if (stopped.ok()) call->Write(v1::StopReply());
  return calls_.Ended(RpcMethod::kStop, rpc::ToGrpc(stopped));
}

grpc::Status ControlService::StreamedRecord(
    grpc::ServerContext* context, grpc::ServerUnaryStreamer<v1::RecordRequest, v1::RecordReply>* call) {
  const absl::StatusOr<Admitted> admitted = Admit(*context);
  if (!admitted.ok()) return Refuse("record", RpcMethod::kRecord, *context, admitted.status());
  v1::RecordRequest request;
  if (!call->Read(&request)) return calls_.Ended(RpcMethod::kRecord, NoRequest());
  AuditLog::Call audited = audit_.Begin("record", admitted->caller.who(),
                                        {{"job", request.job()},
                                         {"window_ns", request.window_ns()},
                                         {"period_ns", request.period_ns()},
                                         {"keep", request.keep()}});
  const absl::StatusOr<v1::JobRecording> recording = recordings_.Record(request, admitted->caller);
  v1::RecordReply reply;
  if (recording.ok()) *reply.mutable_recording() = *recording;
  audited.End(ResultName(recording.status()), Text(recording.status()),
              {{"recorded_job", reply.recording().job()}});
  if (recording.ok()) call->Write(reply);
  return calls_.Ended(RpcMethod::kRecord, rpc::ToGrpc(recording.status()));
}

grpc::Status ControlService::StreamedFetch(
    grpc::ServerContext* context, grpc::ServerSplitStreamer<v1::FetchRequest, v1::FetchChunk>* call) {
  const absl::StatusOr<Admitted> admitted = Admit(*context);
  if (!admitted.ok()) return Refuse("fetch", RpcMethod::kFetch, *context, admitted.status());
  v1::FetchRequest request;
  if (!call->Read(&request)) return calls_.Ended(RpcMethod::kFetch, NoRequest());
  AuditLog::Call audited = audit_.Begin("fetch", admitted->caller.who(), {{"capture", request.capture()}});
  Sent sent;
  const absl::Status status = SendRecords(admitted->caller, request.capture(), *call, sent);
  audited.End(ResultName(status), Text(status), {{"files", sent.files}, {"bytes", sent.bytes}});
  return calls_.Ended(RpcMethod::kFetch, rpc::ToGrpc(status));
}

grpc::Status ControlService::StreamedWatch(
    grpc::ServerContext* context, grpc::ServerSplitStreamer<v1::WatchRequest, v1::WatchEvent>* call) {
  const absl::StatusOr<Admitted> admitted = Admit(*context);
  if (!admitted.ok()) return Refuse("watch", RpcMethod::kWatch, *context, admitted.status());
  v1::WatchRequest request;
  if (!call->Read(&request)) return calls_.Ended(RpcMethod::kWatch, NoRequest());
  AuditLog::Call audited = audit_.Begin(
      "watch", admitted->caller.who(),
      {{"job", request.job()}, {"every_ns", request.every_ns()}, {"window_ns", request.window_ns()}});
  StreamSink sink(*context, *call, [&](const std::string& job, v1::StatusReply& reply) {
    facts_.add_noticed(admitted->caller, job, reply);
  });
  const absl::Status watched = samples_.Watch(request, admitted->caller, sink);
  audited.End(ResultName(watched), Text(watched), {{"samples", sink.samples()}});
  return calls_.Ended(RpcMethod::kWatch, rpc::ToGrpc(watched));
}

absl::Status ControlService::CheckOwner(const Caller& caller, const std::string& records,
                                        const std::string& id) const {
  if (caller.may_use_all()) return absl::OkStatus();
  const std::string path = absl::StrCat(records, "/", capture::kManifestName);
  const absl::StatusOr<capture::Manifest> manifest = capture::ParseManifest(FileText(path).value_or(""));
  if (!manifest.ok()) {
    return absl::PermissionDeniedError(absl::StrCat("the owner of capture ", id,
                                                    " is unknown, because it has no readable manifest: only "
                                                    "holders of the aggregator's token can fetch it"));
  }
  return caller.CheckSee(absl::StrCat("capture ", id), {manifest->job, manifest->uid});
}

absl::Status ControlService::SendRecords(const Caller& caller, const std::string& id,
                                         grpc::internal::WriterInterface<v1::FetchChunk>& writer,
                                         Sent& sent) const {
  // Held until the last byte is sent, so that retention does not remove the capture.
  const std::unique_ptr<CaptureUse::Hold> hold = use_.Read(id);
  const std::string records = absl::StrCat(hub_.captures().folder(), "/", id, "/records");
  std::error_code error;
  if (hold == nullptr || !capture::IsPlainFileName(id) || !std::filesystem::is_directory(records, error)) {
    return absl::NotFoundError(
        absl::StrCat("no capture ", id, " is stored here: it never existed, or retention has removed it"));
  }
  if (hub_.captures().IsWriting(id))
    return absl::FailedPreconditionError(
        absl::StrCat("capture ", id, " still runs: wait until it has ended"));
  LOCKSTEP_RETURN_IF_ERROR(CheckOwner(caller, records, id));
  for (const std::string& name : FilesOf(records)) {
    LOCKSTEP_RETURN_IF_ERROR(SendFile(records, name, writer, sent.bytes));
    ++sent.files;
  }
  return absl::OkStatus();
}

}  // namespace lockstep::aggregator
