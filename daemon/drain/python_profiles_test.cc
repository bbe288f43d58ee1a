#include "daemon/drain/python_profiles.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::daemon {
namespace {

constexpr ProcessId kProcess{71, 123456};
constexpr uint64_t kNumber = 5;
constexpr int kAllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

Fd MemoryFile(const std::string& bytes, int seals = kAllSeals) {
  Fd file(memfd_create("profile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}

ring::Profile Message(uint64_t bytes, const std::string& text = "") {
  ring::Profile message{};
  message.capture = kNumber;
  message.bytes = bytes;
  message.begin_ns = 100;
  message.end_ns = 200;
  std::memcpy(message.text, text.data(), text.size());
  return message;
}

class PythonProfilesTest : public testing::Test {
 protected:
  PythonProfilesTest() {
    spool_->OnReady([] {});
  }

  void Expect() { profiles_.Expect(kProcess, "c", spool_); }
  void Send(uint64_t number = kNumber) {
    profiles_.Send(kProcess, number, [this] { ++done_; });
  }
  // Returns the pieces in the spool. Acknowledges them, so that there is room again.
  std::vector<v1::TraceFile> Pieces() {
    std::vector<v1::TraceFile> pieces;
    v1::FromDaemon message;
    spool_->Acknowledge(0, 1000);
    while (spool_->Take(message)) {
      EXPECT_TRUE(message.has_trace_file());
      pieces.push_back(message.trace_file());
      spool_->Acknowledge(message.trace_file().sequence(), 1000);
    }
    return pieces;
  }
  std::string GivenUp() {
    const std::vector<v1::TraceFile> pieces = Pieces();
    return pieces.empty() ? "" : pieces.back().given_up();
  }

  SystemClock clock_;
  losses::LossTable losses_{{"ring", "spool"}};
  std::shared_ptr<Spool> spool_ = std::make_shared<Spool>(1u << 20, clock_, losses_);
  std::unique_ptr<EventLoop> loop_ = *EventLoop::Create(clock_);
  PythonProfiles profiles_{*loop_, clock_};
  int done_ = 0;
};

TEST_F(PythonProfilesTest, EntersTheSpoolInPiecesAndWaitsForRoom) {
  std::string bytes(1'500'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + i / 256);
  Expect();
  profiles_.OnProfile(kProcess, Message(bytes.size()), MemoryFile(bytes));
  Send();
  EXPECT_EQ(done_, 0) << "half of the spool is less than the profile";
  std::vector<v1::TraceFile> pieces = Pieces();
  const auto stop_when_done = [&](const auto& again) -> void {
    for (v1::TraceFile& piece : Pieces()) pieces.push_back(std::move(piece));
    if (done_ == 1) return loop_->Stop();
    loop_->After(Nanos::Millis(5), [&again] { again(again); });
  };
  loop_->After(Nanos::Millis(5), [&] { stop_when_done(stop_when_done); });
  loop_->Run();
  std::string got;
  for (const v1::TraceFile& piece : pieces) {
    EXPECT_EQ(piece.kind(), v1::TraceFile::PYTHON_PROFILE);
    EXPECT_EQ(piece.capture(), "c");
    EXPECT_EQ(piece.offset(), got.size());
    EXPECT_EQ(piece.begin_host_ns(), 100);
    EXPECT_EQ(piece.end_host_ns(), 200);
    got += piece.data();
  }
  EXPECT_EQ(got, bytes);
  EXPECT_GE(pieces.size(), 6u);
  EXPECT_TRUE(pieces.back().last());
  EXPECT_FALSE(pieces.front().last());
}

TEST_F(PythonProfilesTest, ASmallProfileIsOnePiece) {
  Expect();
  profiles_.OnProfile(kProcess, Message(9), MemoryFile("a profile"));
  profiles_.OnProfile(kProcess, Message(5), MemoryFile("twice"));
  Send();
  EXPECT_EQ(done_, 1);
  const std::vector<v1::TraceFile> pieces = Pieces();
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].data(), "a profile");
  EXPECT_TRUE(pieces[0].last());
  EXPECT_EQ(pieces[0].process().pid(), 71);
}

TEST_F(PythonProfilesTest, DoesNotSendAProfileOfAnotherCapture) {
  profiles_.OnProfile(kProcess, Message(9), MemoryFile("a profile"));  // not expected
  Send();
  EXPECT_EQ(done_, 1);
  Expect();
  profiles_.OnProfile(kProcess, Message(9), MemoryFile("a profile"));
  Send(kNumber + 1);
  EXPECT_EQ(done_, 2);
  Expect();
  profiles_.OnProfile(kProcess, Message(9), MemoryFile("a profile"));
  profiles_.Forget(kProcess);
  Send();
  EXPECT_EQ(done_, 3);
  EXPECT_TRUE(Pieces().empty());
}

TEST_F(PythonProfilesTest, ReportsReasonsAndInvalidFiles) {
  const auto reason = [&](const ring::Profile& message, Fd file) {
    Expect();
    profiles_.OnProfile(kProcess, message, std::move(file));
    Send();
    return GivenUp();
  };
  EXPECT_EQ(reason(Message(0, "the process runs no Python"), Fd()), "the process runs no Python");
  EXPECT_NE(reason(Message(0), Fd()), "");
  EXPECT_NE(reason(Message(9), Fd()), "");
  EXPECT_NE(reason(Message(10), MemoryFile("a profile")).find("another length"), std::string::npos);
  EXPECT_NE(reason(Message(9), MemoryFile("a profile", F_SEAL_SHRINK)).find("sealed"), std::string::npos);
  EXPECT_NE(reason(Message(9), Fd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC))).find("sealed"),
            std::string::npos);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Fd writer(ends[1]);
  EXPECT_NE(reason(Message(9), Fd(ends[0])).find("sealed"), std::string::npos);
  EXPECT_NE(reason(Message(ring::kMostProfileBytes + 1), MemoryFile("x")).find("limit"), std::string::npos);
  EXPECT_EQ(done_, 8);
}

}  // namespace
}  // namespace lockstep::daemon
