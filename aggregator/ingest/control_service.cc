#include "aggregator/ingest/control_service.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aggregator/store/records_manifest.h"
#include "common/base/fd.h"
#include "common/rpc/status.h"
#include "common/rpc/status_macros.h"

namespace lockstep::ingest {
namespace {

constexpr size_t kChunkBytes = 256 * 1024;

// The manifest comes last: who has it has everything.
std::vector<std::string> FilesOf(const std::string& records) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(records, error)) {
    const std::string name = entry.path().filename().string();
    if (store::ParseRecordsFileName(name).has_value() || store::ParseTraceFileName(name).has_value()) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  for (const char* manifest : {store::kOpenManifestName, store::kManifestName}) {
    if (std::filesystem::exists(absl::StrCat(records, "/", manifest), error)) names.emplace_back(manifest);
  }
  return names;
}

absl::Status SendFile(const std::string& folder, const std::string& name,
                      grpc::ServerWriter<v1::FetchChunk>& writer) {
  const std::string path = absl::StrCat(folder, "/", name);
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  v1::FetchChunk chunk;
  chunk.set_name(name);
  while (true) {
    std::string& data = *chunk.mutable_data();
    data.resize(kChunkBytes);
    const ssize_t n = ::read(fd.get(), data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
    data.resize(static_cast<size_t>(n));
    chunk.set_last_of_file(n == 0);
    if (!writer.Write(chunk)) return absl::CancelledError("the caller left");
    if (n == 0) return absl::OkStatus();
    chunk.clear_name();
  }
}

}  // namespace

grpc::Status ControlService::Status(grpc::ServerContext* context, const v1::StatusRequest* request,
                                    v1::StatusReply* reply) {
  if (absl::Status allowed = token_.Check(*context); !allowed.ok()) return calls_.Ended(RpcMethod::kStatus, rpc::ToGrpc(allowed));
  *reply = hub_.Status(request->job());
  reply->mutable_version()->set_program(version_);
  return calls_.Ended(RpcMethod::kStatus, grpc::Status::OK);
}

grpc::Status ControlService::Trace(grpc::ServerContext* context, const v1::TraceRequest* request,
                                   grpc::ServerWriter<v1::TraceEvent>* writer) {
  if (absl::Status allowed = token_.Check(*context); !allowed.ok()) return calls_.Ended(RpcMethod::kTrace, rpc::ToGrpc(allowed));
  std::string capture;
  bool left = false;
  const auto emit = [&](const v1::TraceEvent& event) {
    if (event.has_accepted()) capture = event.accepted().capture();
    if (!left && writer->Write(event) && !context->IsCancelled()) return;
    // Who asked is gone: the capture ends, and what there is of it is kept here.
    if (!left && !capture.empty()) hub_.Stop(capture).IgnoreError();
    left = true;
  };
  v1::TraceEvent last;
  *last.mutable_finished() =
      hub_.Trace(*request, emit, [&](const std::string& folder, v1::TraceFinished& finished) {
        v1::TraceEvent analysing;
        analysing.mutable_progress()->set_phase("analysing");
        emit(analysing);
        after_(folder, finished);
      });
  emit(last);
  return calls_.Ended(RpcMethod::kTrace, grpc::Status::OK);
}

grpc::Status ControlService::Stop(grpc::ServerContext* context, const v1::StopRequest* request,
                                  v1::StopReply*) {
  absl::Status status = token_.Check(*context);
  if (status.ok()) status = hub_.Stop(request->capture());
  return calls_.Ended(RpcMethod::kStop, rpc::ToGrpc(status));
}

grpc::Status ControlService::Fetch(grpc::ServerContext* context, const v1::FetchRequest* request,
                                   grpc::ServerWriter<v1::FetchChunk>* writer) {
  const absl::Status allowed = token_.Check(*context);
  return calls_.Ended(RpcMethod::kFetch, allowed.ok() ? SendRecords(request->capture(), *writer) : rpc::ToGrpc(allowed));
}

grpc::Status ControlService::SendRecords(const std::string& id, grpc::ServerWriter<v1::FetchChunk>& writer) const {
  const std::string records = absl::StrCat(hub_.options().captures_folder, "/", id, "/records");
  std::error_code error;
  if (!store::IsPlainFileName(id) || !std::filesystem::is_directory(records, error)) {
    return {grpc::StatusCode::NOT_FOUND,
            absl::StrCat("no capture ", id, " is kept here: it was never made, or retention has taken it")};
  }
  if (hub_.IsWriting(id)) {
    return {grpc::StatusCode::FAILED_PRECONDITION,
            absl::StrCat("capture ", id, " still runs: wait until it has ended")};
  }
  for (const std::string& name : FilesOf(records)) {
    if (absl::Status s = SendFile(records, name, writer); !s.ok()) return rpc::ToGrpc(s);
  }
  return grpc::Status::OK;
}

}  // namespace lockstep::ingest
