#include "sim/fleet/fleet.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/json/json_out.h"
#include "base/read_clock.h"
#include "base/rpc/channel.h"
#include "base/rpc/status_macros.h"

namespace lockstep::sim {
namespace {

constexpr Nanos kStopEvery = Nanos::Millis(100);
constexpr Nanos kEndWithin = Nanos::Seconds(5);

}  // namespace

Fleet::Fleet(const FleetOptions& options, rpc::Token token, std::shared_ptr<rpc::Security> security,
             std::function<void(const std::string&)> print)
    : options_(options),
      token_(std::move(token)),
      security_(std::move(security)),
      print_(print),
      captures_(std::move(print), [this](uint64_t ended) {
        MutexLock lock(&mutex_);
        captures_ended_ = ended;
        changed_.SignalAll();
      }) {}

Fleet::~Fleet() {
  for (const auto& daemon : daemons_) daemon->Stop();
  {
    MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, kEndWithin,
                     [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return over_ >= daemons_.size(); });
  }
  queue_.Shutdown();
  for (std::thread& thread : threads_) thread.join();
  // Completions remain if no thread was started.
  void* tag = nullptr;
  bool ok = false;
  while (threads_.empty() && queue_.Next(&tag, &ok)) {
  }
}

absl::Status Fleet::Open() {
  for (uint32_t i = 0; i < options_.daemons; ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel,
                              rpc::Connect(options_.aggregator, security_.get()));
    daemons_.push_back(
        std::make_unique<FleetDaemon>(i, options_, token_, std::move(channel), queue_, captures_, *this));
  }
  return absl::OkStatus();
}

void Fleet::Serve() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) static_cast<FleetTag*>(tag)->Complete(ok);
}

absl::Status Fleet::Run(const std::function<bool()>& stop) {
  LOCKSTEP_RETURN_IF_ERROR(Open());
  opened_at_ = ReadMonotonic();
  for (const auto& daemon : daemons_) daemon->Start();
  for (uint32_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Serve(); });
  while (!stop()) {
    MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, kStopEvery);
    if (!failed_.ok()) return failed_;
    if (options_.captures != 0 && captures_ended_ >= options_.captures) break;
  }
  return absl::OkStatus();
}

void Fleet::OnRegistered() {
  MutexLock lock(&mutex_);
  if (++registered_ < options_.daemons) return;
  JsonOut out(JsonOut::Layout::kOneLine);
  out.BeginObject();
  out.Member("event", "registered");
  out.Member("daemons", registered_);
  out.Member("took_ns", ReadMonotonic() - opened_at_);
  out.EndObject();
  print_(out.Take());
}

void Fleet::OnOver(uint32_t daemon, const absl::Status& why, Expected expected) {
  MutexLock lock(&mutex_);
  ++over_;
  changed_.SignalAll();
  if (expected == Expected::kYes || !failed_.ok()) return;
  failed_ = absl::Status(why.ok() ? absl::StatusCode::kUnavailable : why.code(),
                         absl::StrCat("daemon ", daemon, " lost its stream to ", options_.aggregator, ": ",
                                      why.ok() ? "the aggregator ended it" : why.message()));
}

}  // namespace lockstep::sim
