#include "daemon/uplink/uplink.h"

#include <fcntl.h>

#include "base/mutex.h"
#include "base/rpc/channel.h"
#include "daemon/node/temp_folder_fake.h"
#include "daemon/uplink/aggregator_fake.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

using Seen = FakeAggregator::Seen;

class UplinkTest : public testing::Test, private UplinkEvents {
 protected:
  // Runs before the members are destroyed, because the uplink's threads call this object.
  void TearDown() override { uplink_.reset(); }

  std::unique_ptr<FakeAggregator> MakeAggregator(const std::string& name = "a",
                                                 FakeAggregator::Options options = {}) {
    if (options.address.empty()) options.address = "unix:" + folder_.path() + "/" + name;
    return std::make_unique<FakeAggregator>(options);
  }
  void Open(const std::string& address, UplinkOptions options = {}) {
    options.id = 1;
    options.name = address;
    options.node_id = "node";
    options.session = 77;
    std::shared_ptr<rpc::Security> security;
    if (!options.token.empty())
      security = *rpc::Security::ForClient({.token = options.token}, tls::Holder::kNode,
                                           std::make_shared<SystemClock>(), &LogNothing);
    options.connect = [address, security] { return rpc::Connect(address, security.get()); };
    if (security != nullptr) options.server_problem = [security] { return security->server_problem(); };
    UplinkEvents& events = *this;
    uplink_ = std::make_unique<Uplink>(options, spool_, clock_, events, log_);
    uplink_->Start();
  }
  void AddBatch(uint64_t rows) {
    BatchData batch;
    batch.capture = "c";
    batch.process = {1, 2};
    batch.blocks = std::string(1000, 'b');
    batch.rows[2] = rows;
    spool_->Add(std::move(batch));
  }
  void OnUplinkUp(UplinkId) override { ++ups_; }
  void OnUplinkDown(UplinkId, const absl::Status& why, bool last) override {
    MutexLock lock(&mutex_);
    ++downs_;
    down_ = why;
    last_ = last;
  }
  void OnRequest(UplinkId, const v1::FromAggregator& request) override {
    MutexLock lock(&mutex_);
    requests_.push_back(request);
  }
  template <typename F>
  bool Eventually(F condition) {
    for (int i = 0; i < 1000; ++i) {
      {
        MutexLock lock(&mutex_);
        if (condition()) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  TempFolder folder_;
  SystemClock clock_;
  Fd null_{open("/dev/null", O_WRONLY | O_CLOEXEC)};
  Log log_{null_.get(), LogLevel::kError, clock_};
  losses::LossTable losses_{{"spool"}};
  std::shared_ptr<Spool> spool_ = std::make_shared<Spool>(1 << 20, clock_, losses_);
  Mutex mutex_;
  std::atomic<int> ups_ = 0;
  int downs_ = 0;
  absl::Status down_;
  bool last_ = false;
  std::vector<v1::FromAggregator> requests_;
  std::unique_ptr<Uplink> uplink_;
};

TEST_F(UplinkTest, SendsRanksBeforeItReportsUp) {
  auto aggregator = MakeAggregator();
  Open(aggregator->address());
  ASSERT_TRUE(Eventually([&] { return ups_ == 1; }));
  EXPECT_TRUE(aggregator->WaitFor([](const Seen& s) { return s.rank_updates == 1; }));
  v1::Rank rank;
  rank.set_rank(5);
  v1::RankUpdate update;
  *update.add_ranks() = rank;
  uplink_->SetRanks(std::move(update));
  EXPECT_TRUE(
      aggregator->WaitFor([](const Seen& s) { return s.ranks.size() == 1 && s.ranks[0].rank() == 5; }));
}

TEST_F(UplinkTest, SendsBatchesSpooledBeforeItConnected) {
  for (uint64_t i = 1; i <= 3; ++i) AddBatch(i);
  auto aggregator = MakeAggregator();
  Open(aggregator->address());
  ASSERT_TRUE(aggregator->WaitFor([](const Seen& s) { return s.batches.size() == 3; }));
  EXPECT_TRUE(Eventually([&] { return spool_->empty(); }));
}

TEST_F(UplinkTest, NeverExceedsTheCredits) {
  FakeAggregator::Options options;
  options.credits = 2;
  auto aggregator = MakeAggregator("a", options);
  aggregator->SetAcks(FakeAggregator::Acks::kOff);
  for (uint64_t i = 1; i <= 5; ++i) AddBatch(i);
  Open(aggregator->address());
  ASSERT_TRUE(aggregator->WaitFor([](const Seen& s) { return s.batches.size() == 2; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(aggregator->seen().batches.size(), 2u);
  aggregator->SetAcks(FakeAggregator::Acks::kOn);
  EXPECT_TRUE(aggregator->WaitFor([](const Seen& s) { return s.batches.size() == 5; }));
}

TEST_F(UplinkTest, ReconnectsAndSendsOnlyUnstoredBatches) {
  auto aggregator = MakeAggregator();
  aggregator->SetAcks(FakeAggregator::Acks::kOff);
  Open(aggregator->address());
  for (uint64_t i = 1; i <= 4; ++i) AddBatch(i);
  ASSERT_TRUE(aggregator->WaitFor([](const Seen& s) { return s.batches.size() == 4; }));
  aggregator->BreakStream();
  ASSERT_TRUE(Eventually([&] { return ups_ == 2; }));
  AddBatch(5);
  ASSERT_TRUE(aggregator->WaitFor([](const Seen& s) { return s.batches.size() == 5; }));
  // All four had been stored, although none was acknowledged.
  EXPECT_EQ(aggregator->seen().duplicates, 0);
  EXPECT_EQ(aggregator->seen().holes, 0);
}

TEST_F(UplinkTest, WaitsForAnAggregatorThatStartsLater) {
  Open("unix:" + folder_.path() + "/later");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  auto aggregator = MakeAggregator("later");
  EXPECT_TRUE(Eventually([&] { return ups_ == 1; }));
}

TEST_F(UplinkTest, GivesUpAJobsAggregatorThatDoesNotReturn) {
  UplinkOptions job;
  job.mode = UplinkOptions::Mode::kWhileReachable;
  job.gone_after = Nanos::Millis(400);
  job.register_timeout = Nanos::Millis(100);
  auto aggregator = MakeAggregator("a");
  Open(aggregator->address(), job);
  ASSERT_TRUE(Eventually([&] { return ups_ == 1; }));
  aggregator->BreakStream();
  ASSERT_TRUE(Eventually([&] { return ups_ == 2; }));
  {
    MutexLock lock(&mutex_);
    EXPECT_FALSE(last_);
  }
  aggregator.reset();
  EXPECT_TRUE(Eventually([&] { return last_; }));
}

TEST_F(UplinkTest, SendsItsToken) {
  FakeAggregator::Options options;
  options.address = "127.0.0.1:0";
  options.token = *rpc::Token::Random();
  auto aggregator = MakeAggregator("a", options);
  UplinkOptions with;
  with.token = options.token;
  Open(aggregator->address(), with);
  EXPECT_TRUE(Eventually([&] { return ups_ == 1; }));
  EXPECT_TRUE(aggregator->WaitFor([](const Seen& s) { return s.samples.size() >= 20; }));
}

TEST_F(UplinkTest, ReportsAWrongToken) {
  FakeAggregator::Options options;
  options.address = "127.0.0.1:0";
  options.token = *rpc::Token::Random();
  auto aggregator = MakeAggregator("a", options);
  UplinkOptions with;
  with.token = *rpc::Token::Random();
  Open(aggregator->address(), with);
  ASSERT_TRUE(Eventually([&] { return downs_ > 0; }));
  MutexLock lock(&mutex_);
  EXPECT_EQ(down_.code(), absl::StatusCode::kUnauthenticated) << down_;
  EXPECT_NE(std::string(down_.message()).find("does not have this token"), std::string::npos) << down_;
  EXPECT_FALSE(last_);
}

TEST_F(UplinkTest, ReportsTheReasonOfARefusal) {
  FakeAggregator::Options options;
  options.refuse = "this aggregator is full";
  auto aggregator = MakeAggregator("a", options);
  Open(aggregator->address());
  ASSERT_TRUE(Eventually([&] { return downs_ > 0; }));
  MutexLock lock(&mutex_);
  EXPECT_NE(std::string(down_.message()).find("this aggregator is full"), std::string::npos);
  EXPECT_EQ(ups_, 0);
}

TEST_F(UplinkTest, ForwardsRequests) {
  auto aggregator = MakeAggregator();
  Open(aggregator->address());
  ASSERT_TRUE(Eventually([&] { return ups_ == 1; }));
  aggregator->Stop("c", FakeAggregator::StopMode::kAbort);
  ASSERT_TRUE(Eventually([&] { return requests_.size() == 1; }));
  MutexLock lock(&mutex_);
  EXPECT_EQ(requests_[0].stop().capture(), "c");
}

TEST_F(UplinkTest, FlushWaitsUntilAllIsAcknowledged) {
  auto aggregator = MakeAggregator();
  Open(aggregator->address());
  ASSERT_TRUE(Eventually([&] { return ups_ == 1; }));
  for (uint64_t i = 1; i <= 50; ++i) AddBatch(i);
  uplink_->Flush(Nanos::Seconds(10));
  EXPECT_TRUE(spool_->empty());
  aggregator->SetAcks(FakeAggregator::Acks::kOff);
  AddBatch(1);
  const MonoTime before = clock_.Monotonic();
  uplink_->Flush(Nanos::Millis(100));
  EXPECT_LT(clock_.Monotonic() - before, Nanos::Seconds(2));
}

TEST_F(UplinkTest, EndsQuicklyIfTheAggregatorReadsNothing) {
  auto aggregator = MakeAggregator();
  Open(aggregator->address());
  ASSERT_TRUE(Eventually([&] { return ups_ == 1; }));
  aggregator->SetReading(FakeAggregator::Reading::kOff);
  for (uint64_t i = 1; i <= 500; ++i) AddBatch(i);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const MonoTime before = clock_.Monotonic();
  uplink_.reset();
  EXPECT_LT(clock_.Monotonic() - before, Nanos::Seconds(3));
}

TEST_F(UplinkTest, EndsQuicklyWithoutAnAggregator) {
  Open("127.0.0.1:1");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const MonoTime before = clock_.Monotonic();
  uplink_.reset();
  EXPECT_LT(clock_.Monotonic() - before, Nanos::Seconds(2));
}

}  // namespace
}  // namespace lockstep::daemon
