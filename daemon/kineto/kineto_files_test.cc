// Tests with trace files on a real disk: which are sent, which are left alone, and which are removed.
#include "daemon/kineto/kineto_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "base/mutex.h"
#include "daemon/kineto/kineto_config.h"
#include "daemon/node/own_access.h"
#include "daemon/node/temp_folder_fake.h"
#include "gmock/gmock.h"

namespace lockstep::daemon {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string Inflate(const std::string& bytes) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  std::string out(64u << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

class KinetoFileTest : public testing::Test {
 protected:
  KinetoFileTest() {
    settings_.stable_after = Nanos();
    settings_.check_interval = Nanos::Millis(5);
    settings_.wait_for_room = Nanos::Millis(50);
    settings_.fallback_folder = folder_.path() + "/fallback";
    fs::create_directory(settings_.fallback_folder);
  }
  KinetoFileSpec Spec() const {
    KinetoFileSpec spec;
    spec.process = FindProcess(*access_, getpid())->id;
    spec.uid = geteuid();
    spec.gid = getegid();
    spec.client_pid = 42;
    spec.folder = folder_.path();
    spec.session = "s";
    return spec;
  }
  std::string Path() const { return folder_.path() + "/" + KinetoFileName("s", 42); }
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  KinetoSendResult Send(KinetoFile& file) {
    return file.Send(
        [this](const v1::TraceFile& piece) {
          EXPECT_EQ(piece.offset(), sent_.size());
          sent_ += piece.data();
          last_ = piece.last();
          given_up_ = piece.given_up();
          return true;
        },
        [] { return false; });
  }

  TempFolder folder_;
  KinetoFilesSettings settings_;
  const std::shared_ptr<const HostAccess> access_ = std::make_shared<OwnAccess>();
  const std::unique_ptr<UserFolders> folders_ = *access_->FoldersOf(geteuid(), getegid());
  SystemClock clock_;
  std::string sent_;
  bool last_ = false;
  std::string given_up_;
};

TEST_F(KinetoFileTest, IsWholeWhenItsFinalNameExists) {
  KinetoFile file(Spec(), settings_, *access_, *folders_, clock_);
  EXPECT_EQ(file.CheckStage(), KinetoFileStage::kNone);
  Write(Path() + ".tmp", "{");
  EXPECT_EQ(file.CheckStage(), KinetoFileStage::kWriting);
  fs::rename(Path() + ".tmp", Path());
  EXPECT_EQ(file.CheckStage(), KinetoFileStage::kWhole);
  const KinetoSendResult result = Send(file);
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.bytes, sent_.size());
  EXPECT_TRUE(last_);
  EXPECT_EQ(Inflate(sent_), "{");
  file.Remove();
  EXPECT_FALSE(fs::exists(Path()));
}

TEST_F(KinetoFileTest, IsRemovedWithoutAnEarlierCheck) {
  KinetoFile file(Spec(), settings_, *access_, *folders_, clock_);
  Write(Path(), "{}");
  file.Remove();
  EXPECT_FALSE(fs::exists(Path()));
}

TEST_F(KinetoFileTest, WaitsForAFileThatIsWrittenUnderItsFinalName) {
  settings_.stable_after = Nanos::Millis(60);
  KinetoFile file(Spec(), settings_, *access_, *folders_, clock_);
  Write(Path(), "{");
  EXPECT_NE(file.CheckStage(), KinetoFileStage::kWhole);
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  Write(Path(), "{\"a\"");
  EXPECT_NE(file.CheckStage(), KinetoFileStage::kWhole) << "it grows";
  std::this_thread::sleep_for(std::chrono::milliseconds(80));
  EXPECT_EQ(file.CheckStage(), KinetoFileStage::kWhole);
}

TEST_F(KinetoFileTest, SendsLargeFilesInPiecesAndGzipUnchanged) {
  std::string text;
  for (int i = 0; text.size() < (3u << 20); ++i) text += std::to_string(i * 2654435761u);
  Write(Path(), text);
  KinetoFile file(Spec(), settings_, *access_, *folders_, clock_);
  file.CheckStage();
  EXPECT_EQ(Send(file).error, "");
  EXPECT_GT(sent_.size(), 1u << 20);
  const std::string zipped = sent_;
  EXPECT_TRUE(Inflate(zipped) == text);
  // The file's suffix does not matter.
  Write(Path(), zipped);
  sent_.clear();
  KinetoFile again(Spec(), settings_, *access_, *folders_, clock_);
  again.CheckStage();
  EXPECT_EQ(Send(again).error, "");
  EXPECT_TRUE(sent_ == zipped);
}

TEST_F(KinetoFileTest, IgnoresFilesThatAreNotPlainOrNotTheUsers) {
  Write(folder_.path() + "/secret", "x");
  fs::create_symlink(folder_.path() + "/secret", Path());
  KinetoFile link(Spec(), settings_, *access_, *folders_, clock_);
  EXPECT_EQ(link.CheckStage(), KinetoFileStage::kNone);
  fs::remove(Path());
  ASSERT_EQ(mkfifo(Path().c_str(), 0600), 0);
  KinetoFile pipe(Spec(), settings_, *access_, *folders_, clock_);
  EXPECT_EQ(pipe.CheckStage(), KinetoFileStage::kNone) << "and does not hang";
  fs::remove(Path());
  fs::create_hard_link(folder_.path() + "/secret", Path());
  KinetoFile second_name(Spec(), settings_, *access_, *folders_, clock_);
  second_name.CheckStage();
  EXPECT_THAT(Send(second_name).error, HasSubstr("not a plain file"));
  EXPECT_EQ(sent_, "");
  fs::remove(Path());
  KinetoFileSpec other = Spec();
  other.uid = geteuid() + 1;
  Write(Path(), "x");
  KinetoFile others(other, settings_, *access_, *folders_, clock_);
  EXPECT_EQ(others.CheckStage(), KinetoFileStage::kNone);
  others.Remove();
  EXPECT_TRUE(fs::exists(Path()));
}

TEST_F(KinetoFileTest, DoesNotFollowALinkThatReplacesTheFile) {
  Write(Path(), "x");
  KinetoFile file(Spec(), settings_, *access_, *folders_, clock_);
  EXPECT_EQ(file.CheckStage(), KinetoFileStage::kWhole);
  Write(folder_.path() + "/secret", "secret");
  fs::remove(Path());
  fs::create_symlink(folder_.path() + "/secret", Path());
  EXPECT_THAT(Send(file).error, HasSubstr("cannot open"));
  EXPECT_EQ(sent_, "");
}

TEST_F(KinetoFileTest, FindsTheFileInTheFallbackFolder) {
  KinetoFileSpec spec = Spec();
  spec.not_before = clock_.Realtime() - Nanos::Seconds(10);
  const std::string path = settings_.fallback_folder + "/" + KinetoFallbackName(42);
  Write(path, "old");
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  KinetoFile old(spec, settings_, *access_, *folders_, clock_);
  EXPECT_EQ(old.CheckStage(), KinetoFileStage::kNone) << "it is of another day";
  Write(path, "new");
  KinetoFile file(spec, settings_, *access_, *folders_, clock_);
  EXPECT_EQ(file.CheckStage(), KinetoFileStage::kWhole);
  EXPECT_EQ(Send(file).error, "");
  EXPECT_EQ(Inflate(sent_), "new");
  file.Remove();
  EXPECT_TRUE(fs::exists(path)) << "not of our naming";
}

TEST_F(KinetoFileTest, ReportsAFullSpool) {
  Write(Path(), std::string(100, 'x'));
  KinetoFile file(Spec(), settings_, *access_, *folders_, clock_);
  file.CheckStage();
  std::string gave_up;
  const KinetoSendResult result = file.Send(
      [&](const v1::TraceFile& piece) {
        gave_up = piece.given_up();
        return !piece.given_up().empty();
      },
      [] { return false; });
  EXPECT_THAT(result.error, HasSubstr("--spool-bytes"));
  EXPECT_EQ(gave_up, result.error);
}

TEST_F(KinetoFileTest, RefusesATooLargeFile) {
  settings_.most_bytes = 10;
  Write(Path(), std::string(11, 'x'));
  KinetoFile file(Spec(), settings_, *access_, *folders_, clock_);
  file.CheckStage();
  EXPECT_THAT(Send(file).error, HasSubstr("shorter time"));
}

TEST_F(KinetoFileTest, RefusesAnEmptyFile) {
  Write(Path(), "");
  KinetoFile file(Spec(), settings_, *access_, *folders_, clock_);
  file.CheckStage();
  EXPECT_THAT(Send(file).error, HasSubstr("empty"));
}

class KinetoFilesTest : public KinetoFileTest {
 protected:
  bool WaitFor(const std::function<bool()>& condition) {
    for (int i = 0; i < 1000; ++i) {
      {
        MutexLock lock(&mutex_);
        if (condition()) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  KinetoFileId Watch(KinetoFiles& files) {
    return files.Watch(Spec(), [this](KinetoFileStage stage) {
      MutexLock lock(&mutex_);
      stages_.push_back(stage);
    });
  }
  void Send(KinetoFiles& files, const KinetoFileId& id, MonoTime until) {
    files.Send(
        id, until,
        [this](const v1::TraceFile& piece) {
          MutexLock lock(&mutex_);
          sent_ += piece.data();
          return true;
        },
        [this](KinetoSendResult result) {
          MutexLock lock(&mutex_);
          results_.push_back(std::move(result));
        });
  }
  Mutex mutex_;
  std::vector<KinetoFileStage> stages_;
  std::vector<KinetoSendResult> results_;
};

TEST_F(KinetoFilesTest, AreWatchedSentAndRemoved) {
  KinetoFiles files(settings_, access_);
  const KinetoFileId id = Watch(files);
  Write(Path() + ".tmp", "{}");
  ASSERT_TRUE(WaitFor([&] { return stages_ == std::vector{KinetoFileStage::kWriting}; }));
  fs::rename(Path() + ".tmp", Path());
  ASSERT_TRUE(WaitFor([&] { return stages_.size() == 2 && stages_[1] == KinetoFileStage::kWhole; }));
  Send(files, id, clock_.Monotonic());
  ASSERT_TRUE(WaitFor([&] { return results_.size() == 1; }));
  EXPECT_EQ(results_[0].error, "");
  EXPECT_EQ(Inflate(sent_), "{}");
  EXPECT_TRUE(WaitFor([&] { return !fs::exists(Path()); }));
}

TEST_F(KinetoFilesTest, RemovesFilesThatAppearAfterTheEnd) {
  KinetoFiles files(settings_, access_);
  const KinetoFileId id = Watch(files);
  Send(files, id, clock_.Monotonic() + Nanos::Seconds(20));
  ASSERT_TRUE(WaitFor([&] { return results_.size() == 1; }));
  EXPECT_THAT(results_[0].error, HasSubstr("no trace file appeared"));
  Write(Path(), "{}");
  EXPECT_TRUE(WaitFor([&] { return !fs::exists(Path()); }));
  EXPECT_TRUE(stages_.empty());
}

TEST_F(KinetoFilesTest, EndDuringASend) {
  Write(Path(), std::string(1000, 'x'));
  settings_.wait_for_room = Nanos::Seconds(60);
  auto files = std::make_unique<KinetoFiles>(settings_, access_);
  std::atomic<int> tries = 0;
  files->Send(
      Watch(*files), clock_.Monotonic(), [&](const v1::TraceFile&) { return ++tries < 0; },
      [](const KinetoSendResult&) {});
  ASSERT_TRUE(WaitFor([&] { return tries > 0; }));
  files.reset();
  const int after = tries;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(tries, after) << "no callback after the end";
}

}  // namespace
}  // namespace lockstep::daemon
