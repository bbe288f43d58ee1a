// AsyncStream is one stream of a daemon, as gRPC's asynchronous interface sees it: requests, reads, writes
// and the end are operations, and StreamThreads reports their completion.
//
// The interface is used because the threads of gRPC 1.51's callback interface sleep for 100 ms after each
// idle second, and then calls of every method wait. Its synchronous interface needs a thread per call, so a
// stranger could make the server begin thousands.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_ASYNC_STREAM_H_
#define LOCKSTEP_AGGREGATOR_INGEST_ASYNC_STREAM_H_

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/time.h"
#include "lockstep/v1/ingest.grpc.pb.h"

namespace lockstep::aggregator {

class StreamThreads;

// The tag of an operation of the completion queue.
class QueueOperation {
 public:
  // Reports the completed operation on one of the stream threads.
  virtual void Complete(bool ok) = 0;

 protected:
  ~QueueOperation() = default;
};

// Derived classes serve the stream. gRPC's threads call the On… functions; those of one stream are called one
// at a time, except OnWriteDone. At most one read and one write are in progress. No operation follows Finish
// or WriteAndFinish. The object deletes itself when the last operation has completed.
class AsyncStream {
 public:
  AsyncStream(const AsyncStream&) = delete;
  AsyncStream& operator=(const AsyncStream&) = delete;

  void Read(v1::FromDaemon* message);
  void Write(const v1::FromAggregator& message);
  void Finish(const grpc::Status& status);
  void WriteAndFinish(const v1::FromAggregator& message, const grpc::Status& status);

 protected:
  AsyncStream() = default;
  virtual ~AsyncStream() = default;
  // A client has begun the stream.
  virtual void OnBegin(const grpc::ServerContext& context) = 0;
  // `ok` is false if the stream has ended.
  virtual void OnReadDone(bool ok) = 0;
  virtual void OnWriteDone(bool ok) = 0;
  // The last call before the object is deleted. The stream may never have begun.
  virtual void OnDone() = 0;

 private:
  friend class StreamThreads;
  class Operation final : public QueueOperation {
   public:
    Operation(AsyncStream* stream, void (AsyncStream::*done)(bool ok)) : stream_(stream), done_(done) {}
    void Complete(bool ok) override;

   private:
    AsyncStream* const stream_;
    void (AsyncStream::*const done_)(bool ok);
  };
  void Begun(bool ok);
  void ReadDone(bool ok) { OnReadDone(ok); }
  void WriteDone(bool ok) { OnWriteDone(ok); }
  void Finished(bool) {}
  // Returns the tag of a new operation.
  QueueOperation* Begin(Operation& operation);

  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<v1::FromAggregator, v1::FromDaemon> stream_{&context_};
  StreamThreads* threads_ = nullptr;
  Operation begin_{this, &AsyncStream::Begun};
  Operation read_{this, &AsyncStream::ReadDone};
  Operation write_{this, &AsyncStream::WriteDone};
  Operation finish_{this, &AsyncStream::Finished};
  std::atomic<int> operations_ = 0;  // in progress
};

// The threads that serve all streams of a server.
class StreamThreads {
 public:
  using Service =
      v1::Ingest::WithAsyncMethod_Stream<v1::Ingest::WithStreamedUnaryMethod_Ping<v1::Ingest::Service>>;
  // Makes the object for the next stream.
  using Make = std::function<AsyncStream*()>;

  StreamThreads() = default;
  ~StreamThreads() { Stop(); }

  // One thread calls these once each, in this order: Attach before the server starts, Start after it, and
  // Stop after it was shut down.
  void Attach(grpc::ServerBuilder& builder);
  void Start(Service& service, Make make);
  void Stop();

  // Calls `call` once per `period` on one of the threads, until Stop. The calls end if no thread is free.
  // Call it between Start and Stop, once for each timer.
  void Every(Nanos period, std::function<void()> call);

 private:
  static constexpr int kThreads = 4;

  class Timer final : public QueueOperation {
   public:
    Timer(StreamThreads& threads, Nanos period, std::function<void()> call)
        : threads_(threads), period_(period), call_(std::move(call)) {}
    void Complete(bool ok) override;
    // Once, and then in each Complete: an alarm that waits must not be set.
    void Set(grpc::CompletionQueue& queue);
    void Cancel() { alarm_.Cancel(); }

   private:
    StreamThreads& threads_;
    const Nanos period_;
    const std::function<void()> call_;
    grpc::Alarm alarm_;
  };

  friend class AsyncStream;
  // Waits for the next stream of a client.
  void Request();
  void Run();
  // Returns false if the timer must end.
  bool SetTimer(Timer& timer);
  // A stream has been deleted, or a timer has ended.
  void NoteEnded();

  std::unique_ptr<grpc::ServerCompletionQueue> queue_;  // thread: set by Attach, before the threads begin
  Service* service_ = nullptr;                          // thread: set by Start, as make_
  Make make_;                                           // thread: set by Start
  std::vector<std::thread> threads_;                    // thread: owner
  std::atomic<uint64_t> begun_ = 0;                     // operations since the start

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int users_ ABSL_GUARDED_BY(mutex_) = 0;  // of the queue: streams and timers
  std::vector<std::unique_ptr<Timer>> timers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_INGEST_ASYNC_STREAM_H_
