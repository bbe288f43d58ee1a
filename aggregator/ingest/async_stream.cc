#include "aggregator/ingest/async_stream.h"

#include <utility>

namespace lockstep::aggregator {

void AsyncStream::Read(v1::FromDaemon* message) { stream_.Read(message, Begin(read_)); }

void AsyncStream::Write(const v1::FromAggregator& message) { stream_.Write(message, Begin(write_)); }

void AsyncStream::Finish(const grpc::Status& status) { stream_.Finish(status, Begin(finish_)); }

void AsyncStream::WriteAndFinish(const v1::FromAggregator& message, const grpc::Status& status) {
  stream_.WriteAndFinish(message, grpc::WriteOptions(), status, Begin(finish_));
}

AsyncStream::Operation* AsyncStream::Begin(Operation& operation) {
  ++operations_;
  ++threads_->begun_;
  return &operation;
}

void AsyncStream::Begun(bool ok) {
  if (!ok) return;  // the server has ended
  threads_->Request();
  OnBegin(context_);
}

// The operation counts until its function has returned, so that the stream is not deleted while that function
// begins another one.
void AsyncStream::Complete(Operation& operation, bool ok) {
  AsyncStream* stream = operation.stream;
  (stream->*operation.done)(ok);
  if (--stream->operations_ > 0) return;
  StreamThreads* threads = stream->threads_;
  stream->OnDone();
  delete stream;
  threads->NoteEnded();
}

void StreamThreads::Attach(grpc::ServerBuilder& builder) { queue_ = builder.AddCompletionQueue(); }

void StreamThreads::Start(Service& service, Make make) {
  service_ = &service;
  make_ = std::move(make);
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Run(); });
  Request();
}

void StreamThreads::Request() {
  MutexLock lock(&mutex_);
  if (stopping_) return;
  ++streams_;
  AsyncStream* stream = make_();
  stream->threads_ = this;
  service_->RequestStream(&stream->context_, &stream->stream_, queue_.get(), queue_.get(),
                          stream->Begin(stream->begin_));
}

void StreamThreads::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    // With the increment in Begin, this shows the hand-over between threads to the thread sanitizer, which
    // does not see that of gRPC: Debian builds gRPC without it.
    begun_.load();
    AsyncStream::Complete(*static_cast<AsyncStream::Operation*>(tag), ok);
  }
}

void StreamThreads::NoteEnded() {
  {
    MutexLock lock(&mutex_);
    --streams_;
  }
  changed_.SignalAll();
}

void StreamThreads::Stop() {
  if (queue_ == nullptr) return;
  {
    // No operation may begin after the queue's shutdown.
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.Wait(&mutex_, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return streams_ == 0; });
  }
  queue_->Shutdown();
  if (threads_.empty()) Run();  // a queue must be empty when it is destroyed
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  queue_ = nullptr;
}

}  // namespace lockstep::aggregator
