// Tests a real broker process, which only root can have.
#include "daemon/broker/broker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/files/read_files.h"
#include "base/log/log.h"
#include "daemon/broker/broker_service.h"
#include "daemon/broker/privileges.h"
#include "daemon/broker/split.h"
#include "daemon/broker/user_process.h"
#include "daemon/kineto/kineto_config.h"
#include "daemon/node/own_access.h"
#include "daemon/node/process.h"
#include "daemon/node/process_traits.h"
#include "daemon/node/socket.h"
#include "daemon/node/temp_folder_fake.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

constexpr uid_t kUser = 65534;

class BrokerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // CI runs as root. Another user's process cannot change its user, so there is nothing to test.
    if (geteuid() != 0) GTEST_SKIP() << "only root has a broker: run this test as root";
    ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
    users_ = folder_.path() + "/of_user";
    ASSERT_EQ(mkdir(users_.c_str(), 0700), 0);
    ASSERT_EQ(chown(users_.c_str(), kUser, kUser), 0);
    readable_ = folder_.path() + "/tls.key";
    std::ofstream(readable_) << "secret";
    audit_ = folder_.path() + "/audit";
    SplitDaemon split = *Split({.socket_folders = {users_}, .readable = {readable_}, .appendable = {audit_}});
    if (split.broker == 0) _exit(0);
    broker_ = split.broker;
    access_ = std::move(split.access);
  }
  void TearDown() override {
    access_ = nullptr;
    if (broker_ > 0) WaitForBroker(broker_);
  }

  // Listens at a name in the user's folder, as the user's `lockstep trace` does.
  Fd ListenAs(const std::string& name, int type) {
    sockaddr_un address = {};
    const socklen_t length = PathAddress(users_ + "/" + name, &address);
    Fd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    if (type == SOCK_STREAM) {
      EXPECT_EQ(listen(fd.get(), 4), 0);
    }
    EXPECT_EQ(chown((users_ + "/" + name).c_str(), kUser, kUser), 0);
    EXPECT_EQ(chmod((users_ + "/" + name).c_str(), 0600), 0);
    return fd;
  }
  void WriteAsUser(const std::string& name) {
    std::ofstream(users_ + "/" + name) << "trace";
    ASSERT_EQ(chown((users_ + "/" + name).c_str(), kUser, kUser), 0);
  }

  TempFolder folder_;
  std::string users_, readable_, audit_;
  pid_t broker_ = 0;
  std::shared_ptr<BrokerAccess> access_;
};

TEST_F(BrokerTest, OpensOnlyTheListedFilesOfProcesses) {
  for (const std::string_view name : HostAccess::kProcFiles)
    EXPECT_TRUE(access_->OpenProcFile(getpid(), name).ok()) << name;
  for (const char* name : {"mem", "../1/environ", "root/etc/shadow", ""})
    EXPECT_FALSE(access_->OpenProcFile(getpid(), name).ok()) << name;
  EXPECT_FALSE(access_->OpenProcFile(-1, "stat").ok());
  EXPECT_EQ(FindProcess(*access_, getpid())->id.pid, getpid());
}

TEST_F(BrokerTest, HandsOverTheContentOfFilesThatOnlyItMayRead) {
  ASSERT_EQ(seteuid(kUser), 0);
  const std::string io = ReadProcFile(*access_, broker_, "io");
  const std::string denied = ReadProcFile(OwnAccess(), broker_, "io");
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_THAT(io, testing::HasSubstr("rchar: "));
  EXPECT_EQ(denied, "");
}

TEST_F(BrokerTest, ListsProcessesWithTheirUsers) {
  const std::vector<ProcessOwner> found = access_->Processes();
  const auto self = std::find_if(found.begin(), found.end(),
                                 [](const ProcessOwner& process) { return process.pid == getpid(); });
  ASSERT_NE(self, found.end());
  EXPECT_EQ(self->uid, 0u);
}

TEST_F(BrokerTest, OpensOnlyFilesOfTheSettings) {
  const InputFile key = access_->OpenToRead(readable_);
  ASSERT_TRUE(key.fd.ok()) << key.why;
  EXPECT_EQ(RestOf(key), "secret");
  EXPECT_EQ(access_->OpenToRead("/etc/shadow").error, EACCES);
  EXPECT_TRUE(access_->OpenToAppend(audit_).ok());
  EXPECT_FALSE(access_->OpenToAppend(readable_).ok());
  EXPECT_FALSE(access_->ConnectToSetting(users_ + "/aggregator.sock").ok());
}

TEST_F(BrokerTest, ConnectsAsTheUserToSocketsOfTraceOnly) {
  const Fd listener = ListenAs("aggregator.sock", SOCK_STREAM);
  const Fd other = ListenAs("bus", SOCK_STREAM);
  const absl::StatusOr<Fd> connected = access_->Connect(kUser, users_ + "/aggregator.sock");
  ASSERT_TRUE(connected.ok()) << connected.status();
  const Fd accepted(accept(listener.get(), nullptr, nullptr));
  EXPECT_EQ(PeerOf(accepted.get())->uid, kUser);
  EXPECT_FALSE(access_->Connect(kUser, users_ + "/bus").ok());
  EXPECT_FALSE(access_->Connect(kUser + 1, users_ + "/aggregator.sock").ok())
      << "the folder is closed to others";
}

TEST_F(BrokerTest, SendsOnlyToSocketsOfTheirOwnerInTheFolder) {
  const Fd receiver = ListenAs("client", SOCK_DGRAM);
  const Fd sender(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SetReceiveTimeout(receiver.get(), Nanos::Millis(200));
  char bytes[16];
  access_->SendToFile(sender.get(), users_, users_ + "/client", kUser + 1, "no");
  access_->SendToFile(sender.get(), users_, users_ + "/../of_user/client", kUser, "no");
  access_->SendToFile(sender.get(), users_, users_ + "/client", kUser, "yes");
  EXPECT_EQ(recv(receiver.get(), bytes, sizeof(bytes), 0), 3);
  EXPECT_EQ(recv(receiver.get(), bytes, sizeof(bytes), 0), -1);
}

// Runs Python as another user until the end of the test.
class PythonProcess {
 public:
  explicit PythonProcess(uid_t uid) : pid_(fork()) {
    if (pid_ != 0) return;
    if (!BecomeUser(uid, uid)) _exit(1);
    execlp("python3", "python3", "-c", "import time\ndef late(): time.sleep(100)\nlate()", nullptr);
    _exit(1);
  }
  ~PythonProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

TEST_F(BrokerTest, ReadsAPythonStackAndNotTheMemory) {
  const PythonProcess python(kUser);
  v1::PythonStack stack;
  for (int i = 0; i < 500 && (stack.frames().empty() || stack.frames(0).function() != "late"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::optional<ProcessInfo> info = FindProcess(*access_, python.pid());
    ASSERT_TRUE(info.has_value());
    stack = access_->ReadStacks(python.pid(), info->id.start_ticks, StackKinds::kPython).python();
  }
  ASSERT_EQ(stack.frames_size(), 2) << stack.problem();
  EXPECT_EQ(stack.frames(0).function(), "late");
  EXPECT_EQ(stack.frames(0).line(), 2);
  const v1::ProcessStacks both = access_->ReadStacks(
      python.pid(), FindProcess(*access_, python.pid())->id.start_ticks, StackKinds::kPythonAndNative);
  ASSERT_EQ(both.native_size(), 1) << both.native_problem();
  EXPECT_EQ(both.native(0).frames(0).file(), "libc.so.6");
  EXPECT_EQ(both.python().frames_size(), 2);
  EXPECT_EQ(access_->ReadStacks(python.pid(), 1, StackKinds::kPython).python().problem(),
            "the process has ended")
      << "a reused pid";
  EXPECT_EQ(access_->ReadStacks(1 << 30, 1, StackKinds::kPython).python().problem(),
            "the broker could not read the process: No such process");
  EXPECT_FALSE(access_->OpenProcFile(python.pid(), "mem").ok());
}

TEST_F(BrokerTest, ReadsAndRemovesTracesAsTheirUser) {
  WriteAsUser("lockstep_s_42.json");
  WriteAsUser("private");
  const auto folders = *access_->FoldersOf(kUser, kUser);
  const auto folder = folders->Open(getpid(), 0, users_);
  EXPECT_EQ(folder->Stat("lockstep_s_42.json")->st_uid, kUser);
  absl::StatusOr<Fd> file = folder->Open("lockstep_s_42.json");
  ASSERT_TRUE(file.ok()) << file.status();
  char text[16];
  EXPECT_EQ(read(file->get(), text, sizeof(text)), 5);
  folder->Remove("lockstep_s_42.json");
  EXPECT_FALSE(folder->Stat("lockstep_s_42.json").has_value());
  folder->Remove("private");
  EXPECT_EQ(access((users_ + "/private").c_str(), F_OK), 0);
  EXPECT_FALSE(folder->Open("private").ok());
  // Another user's folders are closed to this one.
  const auto others = *access_->FoldersOf(kUser + 1, kUser + 1);
  EXPECT_FALSE(others->Open(getpid(), 0, users_)->Stat("lockstep_s_42.json").has_value());
}

TEST_F(BrokerTest, LimitsTheProcessesOfOneUser) {
  std::vector<std::unique_ptr<UserFolders>> held;
  for (size_t i = 0; i < Broker::kMostProcessesOfOneUser; ++i) {
    auto folders = access_->FoldersOf(kUser, kUser);
    ASSERT_TRUE(folders.ok()) << i;
    held.push_back(*std::move(folders));
  }
  EXPECT_FALSE(access_->FoldersOf(kUser, kUser).ok());
  EXPECT_TRUE(access_->FoldersOf(kUser + 1, kUser + 1).ok());
}

TEST_F(BrokerTest, CallsFailAfterTheBrokersDeath) {
  EXPECT_FALSE(access_->gone());
  kill(broker_, SIGKILL);
  WaitForBroker(broker_);
  broker_ = 0;
  EXPECT_FALSE(access_->OpenProcFile(getpid(), "stat").ok());
  EXPECT_TRUE(access_->gone());
}

TEST(UserProcessTest, KnowsTheNamesOfTracesAndSockets) {
  for (const std::string& name :
       {KinetoFileName("s", 1), KinetoFileName("s", 1) + ".tmp", KinetoFallbackName(7)})
    EXPECT_TRUE(IsTraceFileName(name)) << name;
  for (const char* name : {"", "lockstep_s_1.txt", "a/lockstep_s_1.json", "lockstep_/../x.json", ".ssh"})
    EXPECT_FALSE(IsTraceFileName(name)) << name;
  EXPECT_TRUE(IsCallersSocket("/tmp/lockstep-x/aggregator.sock"));
  EXPECT_FALSE(IsCallersSocket("aggregator.sock"));
  EXPECT_FALSE(IsCallersSocket("/run/user/1000/bus"));
}

class NoUsers : public UserDirectory {
 public:
  std::string NameOf(uid_t user) const override { return user == 65519 ? "taken" : ""; }
  std::optional<uid_t> UserOf(const std::string& name) const override {
    return named && name == "lockstepd" ? std::optional<uid_t>(990) : std::nullopt;
  }
  std::optional<gid_t> GroupOf(uid_t) const override { return 991; }
  std::vector<std::string> GroupsOf(uid_t) const override { return {}; }
  bool named = false;
};

TEST(ChooseUnprivilegedUserTest, TakesTheUserOfThatNameOrAFreeNumber) {
  NoUsers users;
  EXPECT_EQ(ChooseUnprivilegedUser(users, {})->uid, 65518u);
  EXPECT_EQ(ChooseUnprivilegedUser(users, {{7, 65518}, {8, 65516}})->uid, 65517u);
  users.named = true;
  EXPECT_EQ(ChooseUnprivilegedUser(users, {})->uid, 990u);
  EXPECT_EQ(ChooseUnprivilegedUser(users, {})->gid, 991u);
}

// ---- The broker as a service

// Returns a connection of a process of this user. Linux keeps the identity per thread.
Fd ConnectAs(uid_t uid, const std::string& path) {
  Fd caller;
  std::thread other([&] {
    sockaddr_un address = {};
    const socklen_t length = PathAddress(path, &address);
    if (syscall(SYS_setresuid, -1, uid, -1) != 0) return;
    Fd made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (connect(made.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0)
      caller = std::move(made);
  });
  other.join();
  return caller;
}

class BrokerServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // As above.
    if (geteuid() != 0) GTEST_SKIP() << "only root can act as other users: run this test as root";
    ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
    absl::StatusOr<ListeningSocket> socket = ListeningSocket::Open(path_, SOCK_SEQPACKET, 0666);
    ASSERT_TRUE(socket.ok()) << socket.status();
    ASSERT_EQ(pipe2(stop_, O_CLOEXEC), 0);
    handed_over_ = Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    broker_ = std::make_unique<Broker>(BrokerSettings{.sockets = {handed_over_.get()}}, access_);
    service_ = std::make_unique<BrokerService>(*std::move(socket), kUser, *broker_, log_);
    thread_ = std::thread([this] { service_->Run(stop_[0], Nanos::Millis(20), [this] { ++alive_; }); });
  }
  void TearDown() override {
    if (!thread_.joinable()) return;
    close(stop_[1]);
    thread_.join();
    close(stop_[0]);
  }
  bool IsServed(const BrokerAccess& daemon) { return daemon.OpenProcFile(getpid(), "comm").ok(); }

  TempFolder folder_;
  const std::string path_ = folder_.path() + "/broker.sock";
  SystemClock clock_;
  Log log_{STDERR_FILENO, LogLevel::kError, clock_};
  const OwnAccess access_;
  int stop_[2] = {-1, -1};
  Fd handed_over_;
  std::unique_ptr<Broker> broker_;
  std::unique_ptr<BrokerService> service_;
  std::atomic<int> alive_ = 0;
  std::thread thread_;
};

TEST_F(BrokerServiceTest, ServesOneUserAndHandsItsSocketsOver) {
  const BrokerAccess stranger(ConnectAs(kUser - 1, path_));
  EXPECT_FALSE(IsServed(stranger));
  EXPECT_TRUE(stranger.gone());
  const BrokerAccess root(ConnectAs(0, path_));
  EXPECT_FALSE(IsServed(root)) << "a daemon with --with-broker has no rights of its own";
  const BrokerAccess daemon(ConnectAs(kUser, path_));
  EXPECT_TRUE(IsServed(daemon));
  EXPECT_TRUE(daemon.TakeSocket(0).ok());
  EXPECT_FALSE(daemon.TakeSocket(1).ok());
}

TEST_F(BrokerServiceTest, ServesTheNextDaemonWhenOneHasEnded) {
  auto first = std::make_unique<BrokerAccess>(ConnectAs(kUser, path_));
  EXPECT_TRUE(IsServed(*first));
  const BrokerAccess next(ConnectAs(kUser, path_));
  first.reset();
  EXPECT_TRUE(IsServed(next));
}

TEST_F(BrokerServiceTest, ReportsThatItIsAliveWithoutRequests) {
  const BrokerAccess daemon(ConnectAs(kUser, path_));
  ASSERT_TRUE(IsServed(daemon));
  const int before = alive_;
  while (alive_ < before + 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace
}  // namespace lockstep::daemon
