#include "aggregator/ingest/async_stream.h"

#include <grpc/support/time.h>

#include <utility>

namespace lockstep::aggregator {

void AsyncStream::Read(v1::FromDaemon* message) { stream_.Read(message, Begin(read_)); }

void AsyncStream::Write(const v1::FromAggregator& message) { stream_.Write(message, Begin(write_)); }

void AsyncStream::Finish(const grpc::Status& status) { stream_.Finish(status, Begin(finish_)); }

void AsyncStream::WriteAndFinish(const v1::FromAggregator& message, const grpc::Status& status) {
  stream_.WriteAndFinish(message, grpc::WriteOptions(), status, Begin(finish_));
}

QueueOperation* AsyncStream::Begin(Operation& operation) {
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
void AsyncStream::Operation::Complete(bool ok) {
  AsyncStream* stream = stream_;
  (stream->*done_)(ok);
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
  ++users_;
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
    static_cast<QueueOperation*>(tag)->Complete(ok);
  }
}

void StreamThreads::Every(Nanos period, std::function<void()> call) {
  Timer* timer = nullptr;
  {
    MutexLock lock(&mutex_);
    timer = timers_.emplace_back(std::make_unique<Timer>(*this, period, std::move(call))).get();
    ++users_;
  }
  if (!SetTimer(*timer)) NoteEnded();
}

bool StreamThreads::SetTimer(Timer& timer) {
  MutexLock lock(&mutex_);
  if (stopping_) return false;
  ++begun_;
  timer.Set(*queue_);
  return true;
}

void StreamThreads::Timer::Complete(bool ok) {
  if (ok) call_();
  if (!threads_.SetTimer(*this)) threads_.NoteEnded();
}

void StreamThreads::Timer::Set(grpc::CompletionQueue& queue) {
  alarm_.Set(&queue,
             gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(period_.ns(), GPR_TIMESPAN)),
             static_cast<QueueOperation*>(this));
}

void StreamThreads::NoteEnded() {
  {
    MutexLock lock(&mutex_);
    --users_;
  }
  changed_.SignalAll();
}

void StreamThreads::Stop() {
  if (queue_ == nullptr) return;
  {
    // No operation may begin after the queue's shutdown.
    MutexLock lock(&mutex_);
    stopping_ = true;
    for (const std::unique_ptr<Timer>& timer : timers_) timer->Cancel();
    changed_.Wait(&mutex_, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return users_ == 0; });
  }
  queue_->Shutdown();
  if (threads_.empty()) Run();  // a queue must be empty when it is destroyed
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  queue_ = nullptr;
}

}  // namespace lockstep::aggregator
