#include "aggregator/ingest/hub.h"

#include <sys/random.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/rpc/status_macros.h"

namespace lockstep::ingest {
namespace {

constexpr size_t kMostExchanges = 8192;  // per node: minutes at a capture's rate
constexpr size_t kMostFinished = 32;     // captures that Status still tells about
constexpr size_t kMostAbsent = 1024;     // daemons that went away and may come back
constexpr int64_t kLongestCaptureNs = 600'000'000'000;

// Sorts by time, and two of one second do not collide.
std::string NewCaptureId(JobTime now) {
  const std::time_t seconds = now.ns() / 1'000'000'000;
  std::tm utc = {};
  ::gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &utc);
  uint32_t random = 0;
  if (::getrandom(&random, sizeof(random), 0) != sizeof(random)) random = static_cast<uint32_t>(now.ns());
  return absl::StrFormat("%s-%06x", text, random & 0xFFFFFF);
}

}  // namespace

const char* OutcomeWord(v1::TraceFinished::Outcome outcome) {
  switch (outcome) {
    case v1::TraceFinished::COMPLETE:
      return "complete";
    case v1::TraceFinished::PARTIAL:
      return "partial";
    case v1::TraceFinished::NO_SUCH_JOB:
      return "no_such_job";
    case v1::TraceFinished::DENIED:
      return "denied";
    case v1::TraceFinished::TIMED_OUT:
      return "timed_out";
    default:
      return "failed";
  }
}

Hub::Hub(HubOptions options, const Clock& clock) : options_(std::move(options)), clock_(clock) {}
Hub::~Hub() { Shutdown(); }

v1::Register Hub::Connect(const v1::DaemonHello& hello, std::shared_ptr<DaemonConnection> connection) {
  v1::Register reply;
  reply.mutable_version()->set_protocol_min(kProtocolMin);
  reply.mutable_version()->set_protocol_max(kProtocolMax);
  if (hello.version().protocol_min() > kProtocolMax || hello.version().protocol_max() < kProtocolMin) {
    reply.set_refused(absl::StrFormat(
        "this aggregator speaks protocol %u to %u and the daemon %u to %u: install the same version of "
        "Lockstep on both",
        kProtocolMin, kProtocolMax, hello.version().protocol_min(), hello.version().protocol_max()));
    options_.log(LogLevel::kWarning, "daemon_refused",
                 {{"host", hello.host_name()}, {"reason", reply.refused()}});
    return reply;
  }
  if (hello.node_id().empty()) {
    reply.set_refused("the daemon names no node: give it --node-id");
    return reply;
  }
  const DaemonKey key{hello.node_id(), hello.session()};
  std::shared_ptr<std::mutex> order;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    order = daemons_[key].order;
  }
  std::lock_guard<std::mutex> in_order(*order);
  std::shared_ptr<DaemonConnection> replaced;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (closing_) {
      reply.set_refused("the aggregator is ending");
      return reply;
    }
    Daemon& daemon = daemons_[key];
    reply.set_acked_sequence(daemon.acked);
    reply.set_credits(options_.credits);
    v1::FromAggregator message;
    *message.mutable_register_() = reply;
    connection->Send(message);
    replaced = std::exchange(daemon.connection, std::move(connection));
    daemon.host_name = hello.host_name();
    daemon.version = hello.version();
    daemon.connected = clock_.Now();
  }
  if (replaced != nullptr) replaced->Close();
  for (const auto& session : Sessions()) session->OnDaemonBack(key);
  options_.log(
      LogLevel::kInfo, "daemon_connected",
      {{"host", hello.host_name()}, {"node", hello.node_id()}, {"version", hello.version().program()}});
  return reply;
}

void Hub::Disconnect(const DaemonKey& key, const DaemonConnection* connection) {
  std::string host;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto it = daemons_.find(key);
    if (it == daemons_.end() || it->second.connection.get() != connection) return;
    it->second.connection = nullptr;
    it->second.left = clock_.Now();
    host = it->second.host_name;
    NoteSeen(it->second.ranks);
    // Its acknowledged sequence is all that is worth keeping, and not for ever.
    for (auto old = daemons_.begin(); daemons_.size() > kMostAbsent && old != daemons_.end();) {
      old = old->second.connection == nullptr && old != it ? daemons_.erase(old) : std::next(old);
    }
    changed_.notify_all();
  }
  options_.log(LogLevel::kInfo, "daemon_left", {{"host", host}, {"node", key.node_id}});
}

std::optional<uint64_t> Hub::Handle(const DaemonKey& key, const DaemonConnection* connection,
                                    const v1::FromDaemon& message) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto it = daemons_.find(key);
    if (it == daemons_.end() || it->second.connection.get() != connection) return std::nullopt;
    if (message.has_ranks()) {
      NoteSeen(it->second.ranks);
      it->second.ranks.assign(message.ranks().ranks().begin(), message.ranks().ranks().end());
      NoteSeen(it->second.ranks);
      it->second.told_ranks = true;
      changed_.notify_all();
      return std::nullopt;
    }
  }
  if (message.has_health()) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (const auto it = daemons_.find(key); it != daemons_.end()) it->second.health = message.health();
    return std::nullopt;
  }
  if (message.has_states()) {
    if (auto session = SessionOf(message.states().capture())) session->OnStates(key, message.states());
    return std::nullopt;
  }
  if (message.has_clock()) {
    AddClocks(key, message.clock());
    return std::nullopt;
  }
  return HandleData(key, message);
}

void Hub::AddClocks(const DaemonKey& key, const v1::ClockSamples& samples) {
  std::lock_guard<std::mutex> lock(mutex_);
  Exchanges& exchanges = clocks_[key.node_id];
  for (const v1::ClockSample& s : samples.samples()) {
    exchanges.push_back({HostTime(s.t1_ns()), JobTime(s.t2_ns()), JobTime(s.t3_ns()), HostTime(s.t4_ns()),
                         MonoTime(s.monotonic_ns())});
    if (exchanges.size() > kMostExchanges) exchanges.pop_front();
  }
}

Nanos Hub::RoundTripP99(const std::string& node_id) const {
  std::vector<int64_t> trips;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto it = clocks_.find(node_id);
    if (it == clocks_.end()) return Nanos();
    // The newest tell of the network as it is.
    constexpr size_t kNewest = 200;
    for (auto e = it->second.rbegin(); e != it->second.rend() && trips.size() < kNewest; ++e)
      trips.push_back(RoundTrip(*e).ns());
  }
  if (trips.empty()) return Nanos();
  const size_t at = trips.size() * 99 / 100;
  std::nth_element(trips.begin(), trips.begin() + static_cast<ptrdiff_t>(at), trips.end());
  // A hostile or stepped clock must not put T0 into next week.
  return std::clamp(Nanos(trips[at]), Nanos(), Nanos::Seconds(1));
}

SessionEnvironment Hub::Environment(Purpose purpose) {
  SessionEnvironment env;
  env.purpose = purpose;
  env.clock = &clock_;
  env.limits = options_.limits;
  env.send = [this](const DaemonKey& key, const v1::FromAggregator& message) {
    std::shared_ptr<DaemonConnection> connection;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto it = daemons_.find(key);
      if (it != daemons_.end()) connection = it->second.connection;
    }
    return connection != nullptr && connection->Send(message);
  };
  env.exchanges = [this](const std::string& node_id, JobTime from) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<store::ClockExchange> out;
    const auto it = clocks_.find(node_id);
    if (it == clocks_.end()) return out;
    for (const store::ClockExchange& e : it->second) {
      if (e.t2 >= from) out.push_back(e);
    }
    return out;
  };
  env.lost = [this](const std::string& stage, uint32_t kind, uint64_t records) {
    losses_.Add(stage, kind, records);
  };
  env.round_trip_p99 = [this](const std::string& node_id) { return RoundTripP99(node_id); };
  return env;
}

std::vector<SeenRank> Hub::Seen(size_t& daemons) const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<SeenRank> out;
  daemons = 0;
  for (const auto& [key, daemon] : daemons_) {
    if (daemon.connection == nullptr) continue;
    ++daemons;
    for (const v1::Rank& rank : daemon.ranks) out.push_back({key, daemon.host_name, rank});
  }
  return out;
}

absl::StatusOr<Selection> Hub::Resolve(const v1::TraceRequest& request, const Caller& caller) const {
  size_t daemons = 0;
  const std::vector<SeenRank> seen = Seen(daemons);
  Selection selection = Select(request, caller, seen, daemons);
  if (selection.error.empty()) return selection;
  return selection.denied ? absl::PermissionDeniedError(selection.error)
                          : absl::NotFoundError(selection.error);
}

absl::StatusOr<std::shared_ptr<CaptureSession>> Hub::Begin(const v1::TraceRequest& request,
                                                           const Caller& caller, Purpose purpose) {
  if (request.duration_ns() <= 0 || request.duration_ns() > kLongestCaptureNs) {
    return absl::InvalidArgumentError(
        "a capture lasts more than 0 and at most 10 minutes: give --duration, as in --duration 2s");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Selection selection, Resolve(request, caller));
  LOCKSTEP_RETURN_IF_ERROR(CheckVia(request, selection));
  for (const auto& session : Sessions()) {
    // The daemons take a sample's ranks out of it.
    if (purpose == Purpose::kCapture && session->purpose() == Purpose::kSample) continue;
    for (const SeenRank& s : selection.ranks) {
      if (!session->Holds(s.daemon.node_id, s.rank.process())) continue;
      return absl::FailedPreconditionError(absl::StrCat("rank ", s.rank.rank(), " of job ", selection.job,
                                                        " is being captured already (", session->id(),
                                                        "): wait until that capture has ended, or stop it"));
    }
  }
  const std::string id = NewCaptureId(clock_.Now());
  const std::string& folder =
      purpose == Purpose::kSample ? options_.samples_folder : options_.captures_folder;
  auto session = CaptureSession::Create(id, absl::StrCat(folder, "/", id), std::move(selection), request,
                                        Environment(purpose));
  if (!session.ok()) return session.status();
  std::lock_guard<std::mutex> lock(mutex_);
  if (closing_) return absl::UnavailableError("the aggregator is ending");
  std::shared_ptr<CaptureSession> shared = *std::move(session);
  sessions_[id] = shared;
  return shared;
}

v1::TraceFinished Hub::Trace(const v1::TraceRequest& request, const Caller& caller,
                             const CaptureSession::Emit& emit, const After& after) {
  v1::TraceFinished finished;
  finished.set_outcome(v1::TraceFinished::FAILED);
  const MonoTime begun = MonoNow();
  auto session = Begin(request, caller, Purpose::kCapture);
  if (!session.ok()) {
    if (absl::IsNotFound(session.status())) finished.set_outcome(v1::TraceFinished::NO_SUCH_JOB);
    if (absl::IsPermissionDenied(session.status())) finished.set_outcome(v1::TraceFinished::DENIED);
    finished.set_text(std::string(session.status().message()));
    Count([&](HubStats& counts) { ++counts.captures[finished.outcome()]; });
    return finished;
  }
  const std::string& id = (*session)->id();
  const Selection& selection = (*session)->selection();
  options_.log(
      LogLevel::kInfo, "capture_begins",
      {{"capture", id}, {"job", selection.job}, {"uid", selection.uid}, {"ranks", selection.ranks.size()}});
  finished = (*session)->Run(emit);
  after(absl::StrCat(options_.captures_folder, "/", id), finished);
  options_.log(finished.outcome() == v1::TraceFinished::COMPLETE ? LogLevel::kInfo : LogLevel::kWarning,
               "capture_ended",
               {{"capture", id},
                {"job", selection.job},
                {"outcome", OutcomeWord(finished.outcome())},
                {"text", finished.text()}});
  const v1::CaptureStatus status = (*session)->Status();
  std::lock_guard<std::mutex> lock(mutex_);
  sessions_.erase(id);
  ++counts_.captures[finished.outcome()];
  counts_.capture_took.Observe(MonoNow() - begun);
  finished_.push_back({(*session)->selection().uid, status});
  if (finished_.size() > kMostFinished) finished_.pop_front();
  changed_.notify_all();
  return finished;
}

absl::Status Hub::Stop(const std::string& capture, const Caller& caller) {
  const auto session = SessionOf(capture);
  if (session == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("no capture ", capture, " runs here; `lockstep status` lists those that do"));
  }
  if (const uid_t owner = session->selection().uid; !caller.MayUse(owner)) {
    return absl::PermissionDeniedError(
        absl::StrCat("capture ", capture, " is of user ", owner, "'s job, and you are user ", caller.uid()));
  }
  session->Stop();
  return absl::OkStatus();
}

bool Hub::WaitForDaemon(Nanos at_most) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::nanoseconds(at_most.ns()), [this] {
    return std::any_of(daemons_.begin(), daemons_.end(),
                       [](const auto& d) { return d.second.connection != nullptr && d.second.told_ranks; });
  });
}

std::shared_ptr<CaptureSession> Hub::SessionOf(const std::string& capture) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = sessions_.find(capture);
  return it != sessions_.end() ? it->second : nullptr;
}

std::vector<std::shared_ptr<CaptureSession>> Hub::Sessions() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<CaptureSession>> out;
  for (const auto& [id, session] : sessions_) out.push_back(session);
  return out;
}

bool Hub::IsWriting(const std::string& capture) const {
  const auto session = SessionOf(capture);
  return session != nullptr && session->Status().phase() != "closed";
}

void Hub::Shutdown() {
  std::vector<std::shared_ptr<DaemonConnection>> connections;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  for (const auto& session : Sessions()) session->Abandon();
  // The captures' own threads drain and close them; a bound, since a daemon may be dead.
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds((options_.limits.abandon_wait + Nanos::Seconds(5)).ns()),
                      [this] { return sessions_.empty(); });
    for (auto& [key, daemon] : daemons_) {
      if (daemon.connection != nullptr) connections.push_back(daemon.connection);
    }
  }
  for (const auto& connection : connections) connection->Close();
}

}  // namespace lockstep::ingest
