// Clients for an aggregator: a remote one, or one inside this process for the length of a capture.
#ifndef LOCKSTEP_CLI_COMMON_AGGREGATOR_CLIENT_H_
#define LOCKSTEP_CLI_COMMON_AGGREGATOR_CLIENT_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"

namespace lockstep::v1 {
class TraceRequest;
class TraceEvent;
class StatusReply;
class WatchRequest;
class WatchEvent;
class ProgressReply;
class ProgressRequest;
class RecordRequest;
class JobRecording;
}  // namespace lockstep::v1

namespace lockstep::cli {

struct AggregatorFlags {
  std::string address;     // --aggregator, else $LOCKSTEP_AGGREGATOR; empty: none
  std::string token_file;  // --token-file, else $LOCKSTEP_TOKEN_FILE
  std::string tls_dir;     // --tls-dir, else $LOCKSTEP_TLS_DIR
  bool plaintext = false;  // --insecure-plaintext-tcp
  bool given() const { return !address.empty(); }
};
void AddAggregatorFlags(CLI::App& app, AggregatorFlags& flags);

// A new folder with mode 0700. The destructor removes it with its content.
class TemporaryFolder {
 public:
  static absl::StatusOr<std::unique_ptr<TemporaryFolder>> Make();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Implemented by: the gRPC client (aggregator_client.cc). Any thread; one Trace or Watch at a time.
class AggregatorClient {
 public:
  virtual ~AggregatorClient() = default;
  virtual absl::StatusOr<std::unique_ptr<v1::StatusReply>> Status(const std::string& job) = 0;
  // Returns where the ranks are in their communicators. kUnimplemented: the aggregator is too old.
  virtual absl::StatusOr<std::unique_ptr<v1::ProgressReply>> Progress(const v1::ProgressRequest& request) = 0;
  // Calls `on_event` for each event until the last. kUnavailable: the connection to the aggregator was lost.
  virtual absl::Status Trace(const v1::TraceRequest& request,
                             const std::function<void(const v1::TraceEvent&)>& on_event) = 0;
  // Follows a capture that a Trace began, until its last event. It waits at most `wait` for the connection.
  // kDeadlineExceeded: there is none. kUnavailable: it was lost again. kNotFound: the aggregator does not run
  // the capture.
  virtual absl::Status FollowTrace(const std::string& capture, Nanos wait,
                                   const std::function<void(const v1::TraceEvent&)>& on_event) = 0;
  // Receives samples of a running job (live.proto) until it has ended. kUnimplemented: the aggregator is too
  // old.
  virtual absl::Status Watch(const v1::WatchRequest& request,
                             const std::function<void(const v1::WatchEvent&)>& on_event) = 0;
  // Makes the running Trace or Watch return at once, regardless of the capture. Called from another thread.
  virtual void CancelTrace() = 0;
  virtual absl::Status Stop(const std::string& capture) = 0;
  // Begins, changes or ends the recording of a job. kUnimplemented: the aggregator is too old.
  virtual absl::StatusOr<std::unique_ptr<v1::JobRecording>> Record(const v1::RecordRequest& request) = 0;
  // Receives the files of records/ piece by piece, in order. The manifest is the last file.
  virtual absl::Status Fetch(
      const std::string& capture,
      const std::function<absl::Status(const std::string& file, std::string_view bytes)>& on_bytes) = 0;
};

// kDeadlineExceeded: no aggregator answers at the address within some seconds.
absl::StatusOr<std::unique_ptr<AggregatorClient>> ConnectAggregator(const AggregatorFlags& flags);
// Asks the node's daemon, which answers Status like an aggregator.
absl::StatusOr<std::unique_ptr<v1::StatusReply>> DaemonStatus(const std::string& control_socket,
                                                              const std::string& job);

// Asks the node's daemon for the progress of its ranks. kUnimplemented: the daemon is too old.
absl::StatusOr<std::unique_ptr<v1::ProgressReply>> DaemonProgress(const std::string& control_socket,
                                                                  const v1::ProgressRequest& request);

// An aggregator in this process to which the node's daemon has connected, and a client of it.
class LocalAggregator {
 public:
  virtual ~LocalAggregator() = default;
  virtual AggregatorClient& client() = 0;
};
// kShared: other programs of this user may join the aggregator. DaemonStatus gives them its address.
enum class Sharing { kAlone, kShared };
absl::StatusOr<std::unique_ptr<LocalAggregator>> StartLocalAggregator(const std::string& control_socket,
                                                                      Sharing sharing = Sharing::kAlone);

// Fetches the capture into a temporary folder, under the name `capture`.
absl::StatusOr<std::unique_ptr<TemporaryFolder>> FetchToTemporary(const AggregatorFlags& flags,
                                                                  const std::string& capture);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_AGGREGATOR_CLIENT_H_
