// Runs `lockstep` under several values of --memory and measures the memory of the process.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/commands/memory_limit.h"
#include "cli/common/program_fixture.h"
#include "gmock/gmock.h"

namespace lockstep::cli {
namespace {

using testing::HasSubstr;

constexpr int kJobRanks = 16, kJobSteps = 60, kKernelsPerStep = 400;
constexpr uint64_t kMiB = uint64_t{1} << 20;

struct Measured {
  int code = -1;
  std::string out, err;
  uint64_t peak_bytes = 0;
};

class MemoryTest : public ProgramTest {
 protected:
  // Writes a job of 790,000 rows. Rank 5's kernels take half as long again. Every step ends with an
  // all-reduce.
  std::string WriteJob() const {
    std::string path = folder_ + "/job.timeline";
    std::ofstream out(path);
    out << "lockstep-timeline 1\njob test\nworld " << kJobRanks << "\nhost node-a\ngroup dp.0 dp 0-"
        << kJobRanks - 1
        << "\nname gemm\nname ncclDevKernel_AllReduce_Sum_f32\nname cudaLaunchKernel\nname "
           "cudaStreamSynchronize\nbase "
           "1700000000000000000\n";
    for (int rank = 0; rank < kJobRanks; ++rank) {
      out << "rank " << rank << " host=0\n";
      for (int step = 0; step < kJobSteps; ++step) WriteStep(rank, step, out);
    }
    out << "end\n";
    return path;
  }

  Measured Analyze(const std::string& path, const std::string& memory) const {
    return Measure({"analyze", path, "--format", "json"}, memory);
  }

  Measured Measure(std::vector<std::string> words, const std::string& memory) const {
    words.insert(words.begin(), "lockstep");
    if (!memory.empty()) words.insert(words.end(), {"--memory", memory});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string out = folder_ + "/.report", err = folder_ + "/.errors";
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
      ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
      ::execv(LOCKSTEP_PROGRAM, argv.data());
      ::_exit(99);
    }
    int status = 0;
    uint64_t peak = 0;
    while (::waitpid(child, &status, WNOHANG) == 0) {
      peak = std::max(peak, AnonymousBytes(child));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), Read(out), Read(err), peak};
  }

 private:
  // Memory of the process that no file holds.
  static uint64_t AnonymousBytes(pid_t process) {
    std::ifstream status(absl::StrCat("/proc/", process, "/status"));
    std::string word;
    uint64_t kib = 0;
    while (status >> word) {
      if (word == "RssAnon:") status >> kib;
    }
    return kib << 10;
  }

  // The host launches the kernels ahead, and then waits for the all-reduce.
  static void WriteStep(int rank, int step, std::ofstream& out) {
    constexpr int kShortNs = 20'000, kLongNs = 30'000, kStepNs = kKernelsPerStep * kLongNs + 400'000;
    const int64_t length = rank == 5 ? kLongNs : kShortNs;
    const int64_t begin = int64_t{1'000'000} + int64_t{kStepNs} * step;
    const int64_t ready = begin + 10'000 + length * kKernelsPerStep;
    const int64_t end = begin + 110'000 + int64_t{kLongNs} * kKernelsPerStep;
    int correlation = step * (kKernelsPerStep + 2);
    int64_t call = begin + 1000;
    out << "s " << step << ' ' << begin << ' ' << kStepNs << " t=1\n";
    for (int k = 0; k <= kKernelsPerStep; ++k, call += 3000) {
      out << "a 1 2 " << call << " 2000 c=" << ++correlation << '\n';
      if (k == kKernelsPerStep) break;
      out << "k 7 0 " << begin + 10'000 + length * k << ' ' << length - 100 << " c=" << correlation << '\n';
    }
    out << "c 7 1 " << ready << ' ' << end - ready << " 0 all_reduce bytes=1048576 seq=" << step
        << " c=" << correlation << '\n';
    const std::string wait = absl::StrCat(call, " ", end + 1000 - call, " c=", ++correlation);
    out << "a 1 3 " << wait << "\nw stream " << wait << " stream=7\n";
  }
};

TEST_F(MemoryTest, AnAnalysisOnDiskHasTheSameBytes) {
  const std::string job = WriteJob();
  const Measured whole = Analyze(job, "");
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("STRAGGLER rank 5 (node-a GPU 0): slow GPU, sure."));
  for (const uint64_t mib : {256, 200}) {
    SCOPED_TRACE(absl::StrCat(mib, " MiB"));
    const Measured limited = Analyze(job, absl::StrCat(mib, "MiB"));
    ASSERT_EQ(limited.code, 0) << limited.err;
    EXPECT_LE(limited.peak_bytes, mib * kMiB);
    EXPECT_EQ(limited.out, whole.out);
  }
}

TEST_F(MemoryTest, FewerStepsHaveTheSameCulprit) {
  const std::string job = WriteJob();
  for (const uint64_t mib : {140, 110}) {
    SCOPED_TRACE(absl::StrCat(mib, " MiB"));
    const Measured part = Analyze(job, absl::StrCat(mib, "MiB"));
    ASSERT_EQ(part.code, 0) << part.err;
    EXPECT_LE(part.peak_bytes, mib * kMiB);
    EXPECT_THAT(part.out, HasSubstr("whole steps were analysed, because all of them need some "));
    EXPECT_THAT(part.out, HasSubstr("STRAGGLER rank 5 (node-a GPU 0): slow GPU, sure."));
  }
}

TEST_F(MemoryTest, ALimitThatDoesNotSufficeIsRefusedByName) {
  const std::string job = WriteJob();
  for (const uint64_t mib : {1, 40}) {
    SCOPED_TRACE(absl::StrCat(mib, " MiB"));
    const Measured refused = Analyze(job, absl::StrCat(mib, "MiB"));
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.err, HasSubstr("--memory"));
    EXPECT_EQ(refused.out, "");
    EXPECT_LE(refused.peak_bytes, 40 * kMiB) << "the program itself needs 20 MiB";
  }
}

TEST_F(MemoryTest, AnExportIsWholeOrRefused) {
  const std::string job = WriteJob();
  const Result refused = Run("lockstep export " + job + " --format perfetto -o all.pftrace --memory 140MiB");
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("the output needs all rows"));
}

TEST_F(MemoryTest, AWhatIfSaysWhichStepsItReplayed) {
  const std::string job = WriteJob();
  const Result part = Run("lockstep whatif " + job + " --fix rank=5 --memory 140MiB");
  EXPECT_EQ(part.code, 0) << part.err;
  EXPECT_THAT(part.out, HasSubstr("whole steps were analysed"));
}

// Commands that read a capture, without --memory.
std::vector<std::vector<std::string>> CommandsOn(const std::string& job, const std::string& folder) {
  return {{"overview", job},
          {"kernels", job},
          {"host", job},
          {"diff", job, job},
          {"flame", job},
          {"flame", job, "--diff", job},
          {"whatif", job, "--fix", "rank=5"},
          {"history", "add", job, "--db", folder + "/history.sqlite"}};
}

TEST_F(MemoryTest, EachCommandRefusesALimitThatDoesNotSufficeByName) {
  const std::string job = WriteJob();
  for (const std::vector<std::string>& command : CommandsOn(job, folder_)) {
    SCOPED_TRACE(absl::StrJoin(command, " "));
    const Measured refused = Measure(command, "1MiB");
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.err, HasSubstr("--memory"));
    EXPECT_EQ(refused.out, "");
    EXPECT_LE(refused.peak_bytes, 40 * kMiB) << "the program itself needs 20 MiB";
  }
}

TEST_F(MemoryTest, EachCommandPrintsTheSameOnADisk) {
  const std::string job = WriteJob();
  const std::vector<std::vector<std::string>> commands = {
      {"overview", job}, {"kernels", job}, {"diff", job, job}, {"flame", job, "--diff", job}};
  for (const std::vector<std::string>& command : commands) {
    SCOPED_TRACE(absl::StrJoin(command, " "));
    const Measured whole = Measure(command, "");
    const Measured limited = Measure(command, "200MiB");
    ASSERT_EQ(limited.code, 0) << limited.err;
    EXPECT_EQ(limited.out, whole.out);
    EXPECT_LE(limited.peak_bytes, 200 * kMiB);
  }
}

TEST_F(MemoryTest, ReadingDoesNotHoldTheCapture) {
  // A limit that no step fits, so that the run ends after it has read all rows. The capture has 57 MiB.
  const Measured refused = Analyze(WriteJob(), "48MiB");
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("kernels, copies and calls needs some "));
  EXPECT_LE(refused.peak_bytes, 48 * kMiB);
}

// Here and not in memory_limit_test.cc, because sanitizers have allocators of their own.
TEST(MemoryLimitDeathTest, EndsWithAnErrorThatNamesTheFlag) {
  EXPECT_EXIT(
      {
        LimitMemory(256 * kMiB);
        std::vector<std::unique_ptr<char[]>> taken;
        for (int i = 0; i < 64; ++i) taken.push_back(std::make_unique<char[]>(16 << 20));
        ::_exit(0);
      },
      testing::ExitedWithCode(1), "the input needs more than 256 MiB of memory \\(--memory\\)");
}

}  // namespace
}  // namespace lockstep::cli
