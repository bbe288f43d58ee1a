#include "sim/rank/mpi_world.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>

namespace lockstep::sim {
namespace {

using scenario::Collective;
using scenario::Needs;

constexpr long kPollNs = 200'000;

void Nap() {
  const timespec t{0, kPollNs};
  nanosleep(&t, nullptr);
}

// A pair exchanges two messages: the sender's entry, and the receiver's entry back.
int Tag(uint32_t group, int direction) { return static_cast<int>(group * 2) + direction; }

}  // namespace

MpiWorld::MpiWorld(int* argc, char*** argv) {
  // A single process under Open MPI 4 would start a daemon that can spawn more processes.
  if (getenv("OMPI_COMM_WORLD_SIZE") == nullptr && getenv("PMIX_RANK") == nullptr)
    setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
  int provided = 0;
  MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  rank_ = static_cast<uint32_t>(rank);
  size_ = static_cast<uint32_t>(size);
}

MpiWorld::~MpiWorld() {
  if (abandoned_) return;
  Barrier();
  MPI_Finalize();
}

void MpiWorld::Wait(MPI_Request request) const {
  int done = 0;
  while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) Nap();
}

void MpiWorld::Broadcast(void* data, size_t bytes) const {
  MPI_Request request;
  MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD, &request);
  Wait(request);
}

void MpiWorld::Barrier() const {
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  Wait(request);
}

uint32_t MpiWorld::FirstFailed(bool failed) const {
  const uint32_t mine = failed ? rank_ : size_;
  uint32_t first = 0;
  MPI_Request request;
  MPI_Iallreduce(&mine, &first, 1, MPI_UINT32_T, MPI_MIN, MPI_COMM_WORLD, &request);
  Wait(request);
  return first;
}

StepVote::StepVote() { MPI_Comm_dup(MPI_COMM_WORLD, &comm_); }

StepVote::~StepVote() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized && open_.empty()) MPI_Comm_free(&comm_);
}

void StepVote::Cast(const Vote& mine) {
  Ballot& ballot = open_.emplace_back();
  ballot.mine = {mine.stop ? 1 : 0, mine.hold_until.ns()};
  MPI_Iallreduce(ballot.mine.data(), ballot.all.data(), static_cast<int>(ballot.mine.size()), MPI_INT64_T,
                 MPI_MAX, comm_, &ballot.request);
}

uint32_t StepVote::Limit() {
  while (!open_.empty()) {
    int done = 0;
    MPI_Test(&open_.front().request, &done, MPI_STATUS_IGNORE);
    if (!done) break;
    const auto [stop, hold_until_ns] = open_.front().all;
    stopped_ |= stop != 0;
    if (!stopped_ && hold_until_ns > 0) holds_.push_back({limit_, VirtualTime(hold_until_ns)});
    if (!stopped_) ++limit_;
    open_.pop_front();
  }
  return limit_;
}

MpiResolver::MpiResolver(const Program& program) : program_(program) {
  MPI_Comm_dup(MPI_COMM_WORLD, &messages_);
  const scenario::Scenario& s = *program.scenario;
  groups_.assign(s.groups.size(), MPI_COMM_NULL);
  MPI_Group world;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  for (size_t g = 0; g < s.groups.size(); ++g) {
    const std::vector<uint32_t>& members = s.groups[g].members;
    if (std::find(members.begin(), members.end(), program.rank) == members.end()) continue;
    const std::vector<int> ranks(members.begin(), members.end());
    MPI_Group group;
    MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, static_cast<int>(g), &groups_[g]);
    MPI_Group_free(&group);
  }
  MPI_Group_free(&world);
}

MpiResolver::~MpiResolver() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized || !open_.empty()) return;
  MPI_Comm_free(&messages_);
  for (MPI_Comm& comm : groups_) {
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
  }
}

MpiResolver::Operation& MpiResolver::Open(OpRun run, VirtualTime entry, bool answers) {
  return open_.emplace_back(Operation{run, MPI_REQUEST_NULL, entry.ns(), entry.ns(), answers});
}

void MpiResolver::Enter(OpRun run, uint32_t message, VirtualTime entry) {
  const scenario::Op& op = program_.ops()[run.op];
  if (scenario::NeedsOf(op.collective) == Needs::kPeer)
    EnterPair(op.group, scenario::MessagesOf(op)[message], run, entry);
  else
    EnterGroup(op, run, entry);
}

void MpiResolver::EnterGroup(const scenario::Op& op, OpRun run, VirtualTime entry) {
  const Needs needs = scenario::NeedsOf(op.collective);
  const bool root =
      needs != Needs::kAll && program_.scenario->groups[op.group].members[op.peer] == program_.rank;
  // The root of a broadcast and the other ranks of a reduction wait for no rank.
  const bool waits = needs == Needs::kAll || (needs == Needs::kRoot) != root;
  Operation& o = Open(run, entry, waits);
  const MPI_Comm comm = groups_[op.group];
  switch (needs) {
    case Needs::kAll:
      MPI_Iallreduce(&o.mine, &o.theirs, 1, MPI_INT64_T, MPI_MAX, comm, &o.request);
      break;
    case Needs::kRoot:
      MPI_Ibcast(&o.theirs, 1, MPI_INT64_T, op.peer, comm, &o.request);
      break;
    default:
      MPI_Ireduce(&o.mine, &o.theirs, 1, MPI_INT64_T, MPI_MAX, op.peer, comm, &o.request);
      break;
  }
  if (!waits) answers_.push_back({run, entry});
}

void MpiResolver::EnterPair(uint32_t group, const scenario::Message& message, OpRun run, VirtualTime entry) {
  const int peer = static_cast<int>(program_.scenario->groups[group].members[message.peer]);
  const bool both = message.bytes > program_.scenario->buffered_bytes;
  const bool sends = message.collective == Collective::kSend;
  if (sends || both) {
    Operation& out = Open(run, entry, false);
    MPI_Isend(&out.mine, 1, MPI_INT64_T, peer, Tag(group, sends ? 0 : 1), messages_, &out.request);
  }
  if (!sends || both) {
    Operation& in = Open(run, entry, true);
    MPI_Irecv(&in.theirs, 1, MPI_INT64_T, peer, Tag(group, sends ? 1 : 0), messages_, &in.request);
  } else {
    answers_.push_back({run, entry});
  }
}

bool MpiResolver::Progress(RankEngine& engine) {
  for (Operation& o : open_) {
    if (o.request == MPI_REQUEST_NULL) continue;
    int done = 0;
    MPI_Test(&o.request, &done, MPI_STATUS_IGNORE);
    if (done && o.answers) answers_.push_back({o.run, VirtualTime(std::max(o.mine, o.theirs))});
  }
  while (!open_.empty() && open_.front().request == MPI_REQUEST_NULL) open_.pop_front();
  const bool moved = !answers_.empty();
  while (!answers_.empty()) {
    const Answer answer = answers_.front();
    answers_.pop_front();
    engine.CollectiveDone(answer.run, answer.latest);
  }
  return moved;
}

}  // namespace lockstep::sim
