// Tests the program lockstep from a shell: arguments, exit codes, and the output of each stream.
// cli/launch/run_test.cc has the tests of `lockstep run`.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "capture/store/records_writer.h"
#include "cli/common/program_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wire/columns/columns.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
namespace fs = std::filesystem;

// Writes a capture of two ranks with a hundred kernels each.
void WriteCapture(const std::string& folder, const std::vector<std::string>& notes = {}) {
  capture::Manifest manifest;
  manifest.id = fs::path(folder).filename();
  manifest.job = "4711";
  manifest.world_size = 2;
  manifest.complete = true;
  manifest.notes = notes;
  manifest.hosts = {{"node", "n0", {}}};
  for (int rank = 0; rank < 2; ++rank) {
    capture::ManifestProcess process;
    process.rank = RankId(rank);
    process.host = 0;
    process.window = {HostTime(0), HostTime(1'000'000)};
    process.state = "done";
    manifest.processes.push_back(process);
  }
  auto writer = *capture::RecordsWriter::Create(folder, manifest);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    columns::BlockBuilder builder(columns::Kind::kKernel);
    for (uint64_t i = 0; i < 100; ++i) {
      std::vector<uint64_t> row(columns::Schema(columns::Kind::kKernel).size(), 0);
      row[columns::kernel::kStart] = 1'000 + i * 1'000;
      row[columns::kernel::kDuration] = 500 + rank;
      row[columns::kernel::kDevice] = rank;
      builder.Append(row);
    }
    std::string blocks;
    builder.Encode(1, 0, blocks);
    ASSERT_TRUE(writer->Append({rank, 1}, RankId(static_cast<int32_t>(rank)), blocks).ok());
    manifest.processes[rank].files = writer->Files(rank);
  }
  ASSERT_TRUE(writer->Close(manifest).ok());
}

std::string KinetoEvent(const std::string& category, const std::string& name, int64_t start_us, int64_t us,
                        const std::string& args) {
  return absl::StrCat(R"({"ph": "X", "pid": 1, "tid": 1, "cat": ")", category, R"(", "name": ")", name,
                      R"(", "ts": )", start_us, R"(, "dur": )", us, R"(, "args": {)", args, "}}");
}

// Writes traces of four ranks. In each of twelve steps all compute for 300 us, or `slow_rank` for 600 us, and
// then reduce together.
void WriteTraces(const std::string& folder, int slow_rank) {
  fs::create_directory(folder);
  const int64_t longest_us = slow_rank < 0 ? 300 : 600;
  for (int rank = 0; rank < 4; ++rank) {
    const int64_t own_us = rank == slow_rank ? 600 : 300;
    std::vector<std::string> events;
    for (int64_t step = 0; step < 12; ++step) {
      const int64_t at = step * (longest_us + 120);
      const auto call = [&](const char* name, int64_t start_us, int64_t us, int64_t place) {
        events.push_back(KinetoEvent("cuda_runtime", name, start_us, us,
                                     absl::StrCat("\"correlation\": ", 3 * step + place)));
      };
      const auto kernel = [&](const char* name, int64_t start_us, int64_t us, int64_t place, int stream) {
        call("cudaLaunchKernel", at + place, 1, place);
        events.push_back(KinetoEvent("kernel", name, start_us, us,
                                     absl::StrCat("\"device\": ", rank, ", \"stream\": ", stream,
                                                  ", \"correlation\": ", 3 * step + place)));
      };
      events.push_back(
          KinetoEvent("user_annotation", absl::StrCat("ProfilerStep#", step), at, longest_us + 120, ""));
      kernel("gemm", at + 10, own_us, 1, 7);
      kernel("ncclDevKernel_AllReduce_Sum_f32", at + 10 + own_us, longest_us + 100 - own_us, 3, 15);
      call("cudaDeviceSynchronize", at + 5, longest_us + 107, 2);
    }
    std::ofstream(absl::StrCat(folder, "/rank_", rank, ".json"))
        << R"({"distributedInfo": {"rank": )" << rank << R"(, "world_size": 4}, "traceEvents": [)"
        << absl::StrJoin(events, ",\n") << "]}";
  }
}

TEST_F(ProgramTest, InvalidArgumentsAreNamedWithCode2) {
  EXPECT_EQ(Run("lockstep").code, 2);
  const Result wrong = Run("lockstep frobnicate");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err,
              HasSubstr("unknown command frobnicate; the commands are run, trace, status, top, hang, "
                        "record, report, analyze, whatif, export, "));
  EXPECT_THAT(Run("lockstep reprot x").err, HasSubstr("; did you mean report?"));
  EXPECT_THAT(
      Run("lockstep trace --duratoin 2s").err,
      HasSubstr("unexpected arguments: --duratoin 2s; did you mean --duration?; see `lockstep trace"));
  EXPECT_EQ(Run("lockstep top x").code, 2);
  EXPECT_EQ(Run("lockstep top --every 5").code, 2);
  EXPECT_EQ(Run("lockstep top --once --count 2").code, 2);
  EXPECT_EQ(Run("lockstep top --sort-by beauty").code, 2);
  const Result option = Run("lockstep trace --no-such-option");
  EXPECT_EQ(option.code, 2);
  EXPECT_THAT(option.err, HasSubstr("--no-such-option"));
  EXPECT_THAT(option.out, IsEmpty());
  EXPECT_EQ(Run("lockstep trace --job a --all").code, 2);
  EXPECT_EQ(Run("lockstep trace --duration 2").code, 2);
  EXPECT_EQ(Run("lockstep trace --duration 0s").code, 2);
  EXPECT_EQ(Run("lockstep trace --ranks x").code, 2);
  EXPECT_EQ(Run("lockstep trace --activities pm_sampling").code, 2);
  EXPECT_EQ(Run("lockstep trace --activities python --via cupti").code, 2) << "only PyTorch records that";
  EXPECT_EQ(Run("lockstep trace --via nsys").code, 2);
  EXPECT_EQ(Run("lockstep trace --formats otf3").code, 2);
  EXPECT_EQ(Run("lockstep report x --format yaml").code, 2);
  EXPECT_EQ(Run("lockstep analyze").code, 2);
  EXPECT_EQ(Run("lockstep whatif x").code, 2) << "what is to be fixed?";
  EXPECT_EQ(Run("lockstep whatif x --fix rank").code, 2);
  EXPECT_THAT(Run("lockstep whatif x --fix rank=1 --format html").err, HasSubstr("--format: html not in"));
  EXPECT_EQ(Run("lockstep whatif x --fix rank=1 --scale 0.5 --strength 0.5").code, 2);
}

TEST_F(ProgramTest, RefusesContradictoryTriggers) {
  for (const char* options : {"--steps 3 --duration 2s", "--start-on-step 5 --start-on-range r",
                              "--start-on-range r --start-on-profiler-api", "--steps 0", "--start-on-step x",
                              "--steps 3 --trigger-timeout 0s", "--via cupti --activities python"}) {
    const Result r = Run(std::string("lockstep trace ") + options);
    EXPECT_EQ(r.code, 2) << options << r.err;
  }
}

TEST_F(ProgramTest, UnknownFormatsAreNamed) {
  EXPECT_THAT(Run("lockstep report x --format csv").err, HasSubstr("lockstep export"));
  EXPECT_THAT(Run("lockstep export x --format otf -o y").err,
              AllOf(HasSubstr("unknown format \"otf\"; choose from kineto, perfetto"),
                    HasSubstr("; did you mean otf2?")));
}

TEST_F(ProgramTest, HelpShowsExamples) {
  for (const char* command :
       {"run", "job", "trace", "status", "report", "analyze", "whatif", "export", "doctor"}) {
    const Result help = Run(std::string("lockstep ") + command + " --help");
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr("Example")) << command;
    EXPECT_THAT(help.out, HasSubstr(std::string("lockstep ") + command)) << command;
  }
  const Result version = Run("lockstep --version");
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, ::testing::MatchesRegex("lockstep [0-9.]+\n"));
}

TEST_F(ProgramTest, TraceAndStatusReportAMissingDaemonWithTheRemedy) {
  const Result trace = Run("lockstep trace --duration 1s");
  EXPECT_EQ(trace.code, 4);
  EXPECT_THAT(trace.err, HasSubstr(Socket()));
  EXPECT_THAT(trace.err, HasSubstr("lockstep run -- COMMAND"));
  EXPECT_THAT(trace.out, IsEmpty());
  const Result status = Run("lockstep status --format json");
  EXPECT_EQ(status.code, 4);
  EXPECT_THAT(status.out, HasSubstr("\"daemons\": []")) << "still one document";
}

TEST_F(ProgramTest, AnAggregatorThatDoesNotAnswerTimesOut) {
  const Result r = Run("lockstep status --aggregator unix:" + folder_ + "/nobody.sock");
  EXPECT_EQ(r.code, 6);
  EXPECT_THAT(r.err, HasSubstr("no aggregator answers at unix:" + folder_));
  EXPECT_EQ(Run("lockstep trace --aggregator nonsense").code, 2);
  const Result token = Run("touch t; chmod 644 t; lockstep status --aggregator localhost:1 --token-file t");
  EXPECT_EQ(token.code, 5);
}

TEST_F(ProgramTest, UnusableInputIsReportedInOneSentenceWithCode2) {
  for (const char* command :
       {"lockstep analyze nothing-here",
        "echo '{\"traceEvents\": [' > broken.json; lockstep analyze broken.json",
        "mkdir empty; lockstep analyze empty", "echo hello > hello.json; lockstep analyze hello.json",
        "mkdir capture; lockstep report capture"}) {
    const Result r = Run(command);
    EXPECT_EQ(r.code, 2) << command << "\n" << r.err;
    EXPECT_THAT(r.out, IsEmpty()) << command;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << command << "\n" << r.err;
  }
  const Result none = Run("lockstep report no-such-capture");
  EXPECT_EQ(none.code, 4);
  EXPECT_THAT(none.err, HasSubstr("no capture no-such-capture"));
}

TEST_F(ProgramTest, ShowsPythonProfilesSideBySide) {
  fs::copy_file(LOCKSTEP_SOURCE_DIR "/tests/golden/python/rank_3.cprofile", folder_ + "/rank_3.cprofile");
  fs::copy_file(folder_ + "/rank_3.cprofile", folder_ + "/rank_0.cprofile");
  const Result both =
      Run("lockstep profile rank_*.cprofile --csv --top 1 --sort-by ncalls -c function,ncalls,ranks");
  EXPECT_EQ(both.out, "function,calls,ranks\r\nrecurse,15,2\r\n") << both.err;
  EXPECT_THAT(Run("lockstep profile rank_*.cprofile -w 40").out, ::testing::StartsWith("slowest rank"));
  const Result each =
      Run("lockstep profile rank_*.cprofile --by-rank --csv --top 2 --sort-by cumtime -c rank,function");
  EXPECT_EQ(each.out, "rank,function\r\n0,main\r\n3,main\r\n") << each.err;
  const Result none = Run("echo nothing > rank_1.cprofile; lockstep profile rank_1.cprofile");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("rank_1.cprofile is not a cProfile profile"));
}

TEST_F(ProgramTest, ProfileSaysWhyACaptureLacksProfiles) {
  WriteCapture(folder_ + "/plain");
  const Result plain = Run("lockstep profile plain");
  EXPECT_EQ(plain.code, 2);
  EXPECT_THAT(plain.err, HasSubstr("capture with `lockstep trace --python-profile`"));
  WriteCapture(folder_ + "/asked", {"no Python profile of rank 0: the process runs no Python",
                                    "no Python profile of rank 1: another profiler is active"});
  const Result asked = Run("lockstep profile asked");
  EXPECT_EQ(asked.code, 2);
  EXPECT_EQ(
      asked.err,
      "lockstep: asked has no Python profiles: no Python profile of rank 0: the process runs no Python; "
      "the report's notes name 1 more rank\n");
  fs::create_directory(folder_ + "/asked/profiles");
  fs::copy_file(LOCKSTEP_SOURCE_DIR "/tests/golden/python/rank_3.cprofile",
                folder_ + "/asked/profiles/rank_1.cprofile");
  EXPECT_THAT(Run("lockstep profile asked").out, HasSubstr("note: no Python profile of rank 0: the process"));
}

TEST_F(ProgramTest, ConfigCheckRunsTheConfiguredProgram) {
  const Result right = Run("lockstep config check " LOCKSTEP_SOURCE_DIR "/deploy/config/lockstepd.conf");
  EXPECT_EQ(right.code, 0) << right.err;
  EXPECT_THAT(right.out, HasSubstr("# lockstepd "));
  const Result wrong = Run("echo 'tokenfile = /x' > aggregator.conf; lockstep config check aggregator.conf");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("aggregator.conf:1"));
  EXPECT_EQ(Run("lockstep config chekc").code, 2);
}

TEST_F(ProgramTest, ShowsProgressOnATerminalOnly) {
  WriteCapture(folder_ + "/cap");
  const std::string cleared = "\r\x1b[K";
  ASSERT_EQ(Run("lockstep export cap --format kineto -o traces").err, "lockstep: wrote traces\n");
  for (const std::string command :
       {"report cap", "analyze cap", "analyze traces", "whatif cap --fix op=.* --scale 0.5",
        "export cap --format kineto -o a", "export cap --format csv -o b",
        "export cap --format nsys-sqlite -o c.sqlite", "export cap --format scenario -o d.scenario"}) {
    const bool writes = command.starts_with("export");
    const Result shown = RunOnTerminal("lockstep " + command);
    EXPECT_EQ(shown.code, 0) << shown.err;
    EXPECT_THAT(shown.err, HasSubstr("\rreading 0 of 0 MiB, 100 %" + cleared.substr(1))) << command;
    EXPECT_THAT(shown.err, HasSubstr("\ranalysing" + cleared.substr(1))) << command;
    if (writes) {
      EXPECT_THAT(shown.err, HasSubstr("\rwriting")) << command;
    }
    EXPECT_NE(shown.err.rfind(cleared), std::string::npos) << "nothing of it stays: " << command;
    EXPECT_GT(shown.err.rfind(cleared), shown.err.rfind(writes ? "writing" : "analysing")) << command;
  }
  EXPECT_THAT(RunOnTerminal("lockstep export cap --format csv -o e").err, HasSubstr("writing, 100 %"));
  const Result wrong = RunOnTerminal("lockstep export cap --ranks 7 --format csv -o f");
  EXPECT_EQ(wrong.code, 4);
  EXPECT_THAT(wrong.err, HasSubstr(cleared + "lockstep: the capture has no rank 7"))
      << "an error begins its own line";
  for (const std::string command : {"report cap", "analyze traces", "whatif cap --fix op=.* --scale 0.5"}) {
    EXPECT_THAT(Run("lockstep " + command).err, IsEmpty()) << command;
  }
}

TEST_F(ProgramTest, AnOutputThatExistsIsNotOverwritten) {
  const Result r = Run("mkdir there; lockstep trace -o there");
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.err, HasSubstr("--force"));
  EXPECT_EQ(Run("touch x; lockstep export . --format perfetto -o x").code, 2);
}

TEST_F(ProgramTest, ATraceWithoutRanksReportsThatThereAreNone) {
  Run("lockstep run -- true");
  const Result r = Run("lockstep trace --duration 100ms -o out");
  EXPECT_EQ(r.code, 4) << r.err;
  EXPECT_THAT(r.err, HasSubstr("no GPU process has registered"));
  EXPECT_FALSE(fs::exists(folder_ + "/out"));
  EXPECT_FALSE(fs::exists(folder_ + "/out.partial"));
}

TEST_F(ProgramTest, ReportsAndExportsACaptureOfAnAggregator) {
  const std::string kept = folder_ + "/state/lockstep/captures";
  fs::create_directories(kept);
  WriteCapture(kept + "/20260301-120000-0a1b2c");
  const Result local = Run("lockstep report 20260301-120000-0a1b2c --format json");
  EXPECT_EQ(local.code, 0) << local.err;
  EXPECT_THAT(local.out, HasSubstr("\"schema\": \"lockstep.report/1\""));
  // XDG_STATE_HOME hides the aggregator's folder, as for another user.
  const Result remote =
      Run("lockstep_aggregator --listen unix:" + folder_ +
          "/a.sock --quiet > line & wait_for line; XDG_STATE_HOME=/nowhere lockstep report "
          "20260301-120000-0a1b2c --aggregator unix:" +
          folder_ + "/a.sock --format json; echo code $?; XDG_STATE_HOME=/nowhere lockstep report other " +
          "--aggregator unix:" + folder_ + "/a.sock; echo code $?; kill $!; wait $!; echo aggregator $?");
  EXPECT_EQ(remote.out, local.out + "code 0\ncode 4\naggregator 0\n");
  EXPECT_THAT(remote.err, HasSubstr("no capture other is stored here"));
  const Result text = Run("lockstep report 20260301-120000-0a1b2c --exit-code -o report.txt");
  EXPECT_EQ(text.code, 0) << "too few steps blame nobody: " << text.err;
  EXPECT_THAT(text.out, IsEmpty());
  EXPECT_GT(fs::file_size(folder_ + "/report.txt"), 100u);
  EXPECT_EQ(Run("lockstep export 20260301-120000-0a1b2c --format kineto -o kineto").code, 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ + "/kineto"), fs::directory_iterator()), 2);
  EXPECT_EQ(Run("lockstep analyze kineto --format json > again.json").code, 0);
  EXPECT_EQ(Run("lockstep export 20260301-120000-0a1b2c --format kineto --ranks 1 -o one.json.gz").code, 0);
  EXPECT_EQ(Run("lockstep export 20260301-120000-0a1b2c --format kineto -o two.json.gz").code, 2)
      << "two ranks, one file";
  EXPECT_EQ(Run("lockstep export 20260301-120000-0a1b2c --format kineto --ranks 5 -o five").code, 4);
  EXPECT_EQ(Run("lockstep export 20260301-120000-0a1b2c --format perfetto -o m.pftrace").code, 0);
  EXPECT_EQ(Run("lockstep export 20260301-120000-0a1b2c --format scenario -o job.scenario").code, 0);
  EXPECT_EQ(Run("lockstep export 20260301-120000-0a1b2c --format otf2 -o archive").code, 0);
  EXPECT_TRUE(fs::exists(folder_ + "/archive/traces.otf2"));
  EXPECT_EQ(Run("lockstep export 20260301-120000-0a1b2c --format csv -o tables").code, 0);
  EXPECT_EQ(Run("lockstep export 20260301-120000-0a1b2c --format parquet --ranks 1 -o tables --force").code,
            0);
  EXPECT_TRUE(fs::exists(folder_ + "/tables/ranks.csv"));
  EXPECT_TRUE(fs::exists(folder_ + "/tables/ranks.parquet"));
  EXPECT_EQ(Run("lockstep export 20260301-120000-0a1b2c --format csv -o kernels.csv.gz").code, 0);
  EXPECT_EQ(Run("lockstep export 20260301-120000-0a1b2c --format csv -o krnls.csv").code, 2)
      << "no such table";
  EXPECT_EQ(Run("lockstep export kineto --format perfetto --merged -o n.pftrace").code, 0);
  const Result what_if = Run("lockstep whatif 20260301-120000-0a1b2c --fix rank=1 --scale 0.5");
  EXPECT_EQ(what_if.code, 0) << what_if.err;
  EXPECT_THAT(what_if.out, HasSubstr("IF rank 1"));
  EXPECT_THAT(what_if.out, HasSubstr("NOT MODELLED transfers and copies"));
  EXPECT_THAT(Run("lockstep whatif kineto --fix rank=1 --format json").out,
              HasSubstr("\"schema\": \"lockstep.whatif/1\""));
  const Result nobody = Run("lockstep whatif kineto --fix rank=9");
  EXPECT_EQ(nobody.code, 2);
  EXPECT_THAT(nobody.err, HasSubstr("there are 0-1"));
  EXPECT_THAT(nobody.out, IsEmpty());
  EXPECT_EQ(Run("lockstep whatif no-such-capture --fix rank=1").code, 4);
}

TEST_F(ProgramTest, EveryCommandThatReadsTracesChoosesASpan) {
  fs::create_directory(folder_ + "/traces");
  for (const auto& [name, begin_us] : {std::pair("first", 1000), std::pair("second", 900000)}) {
    std::ofstream(folder_ + "/traces/" + name + ".json")
        << R"({"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [{"ph": "X", "cat": "kernel", )"
        << R"("name": ")" << name << R"(", "pid": 0, "tid": 7, "ts": )" << begin_us
        << R"(, "dur": 5, "args": {"device": 0, "stream": 7, "correlation": 1}}]})";
  }
  const Result one = Run("lockstep kernels traces --span 1 --csv");
  EXPECT_EQ(one.code, 0);
  EXPECT_THAT(one.out, AllOf(HasSubstr("first"), Not(HasSubstr("second"))));
  EXPECT_THAT(one.err, HasSubstr("lockstep: 2 spans found; reading span 1, begin "));
  EXPECT_THAT(Run("lockstep kernels traces --csv").out, HasSubstr("second"));
  EXPECT_THAT(Run("lockstep diff traces traces --span-a 1 --span-b last --csv").out,
              AllOf(HasSubstr("first"), HasSubstr("second")));
  for (const char* command :
       {"analyze traces --span 9", "report traces --span 9", "whatif traces --fix rank=0 --span 9",
        "export traces --format csv -o out --span 9", "ops traces --span 9", "diff traces traces --span-a 9",
        "diff traces traces --span-b 9"}) {
    const Result wrong = Run(std::string("lockstep ") + command);
    EXPECT_EQ(wrong.code, 2) << command;
    EXPECT_THAT(wrong.err, HasSubstr("the traces have 2 spans")) << command;
  }
  EXPECT_EQ(Run("lockstep analyze traces --span first").code, 2);
}

TEST_F(ProgramTest, DiffNamesTheStragglerBehindItsExitCode) {
  WriteTraces(folder_ + "/even", -1);
  WriteTraces(folder_ + "/slow", 3);
  const Result worse = Run("lockstep diff even slow --exit-code");
  EXPECT_EQ(worse.code, 3);
  EXPECT_EQ(
      worse.err,
      "lockstep: B has a straggler, sure: rank 3 (GPU 3), slow GPU, 300 us per step; `lockstep analyze` "
      "shows its evidence\n");
  EXPECT_THAT(Run("lockstep diff even slow").err, IsEmpty());
  const Result better = Run("lockstep diff slow even --exit-code");
  EXPECT_EQ(better.code, 0);
  EXPECT_THAT(better.err, IsEmpty());
}

TEST_F(ProgramTest, AnAggregatorNeedsATokenAndEndsCleanly) {
  const Result open = Run("lockstep_aggregator --listen 127.0.0.1:0");
  EXPECT_EQ(open.code, 2);
  EXPECT_THAT(open.err, HasSubstr("--token-file"));
  const Result r =
      Run("lockstep_aggregator --listen 127.0.0.1:0 --token-file token > line & wait_for line; stat -c %a "
          "token; lockstep status --aggregator $(cut -d' ' -f3 line) --token-file token; "
          "kill $!; wait $!; echo ended $?");
  EXPECT_EQ(r.out, "600\nno daemon is connected\nended 0\n") << r.err;
  EXPECT_EQ(Run("lockstep_aggregator").code, 2);
  EXPECT_EQ(Run("lockstep_aggregator --version").code, 0);
}

TEST_F(ProgramTest, DoctorReportsTheMachine) {
  const Result r = Run("lockstep doctor");
  EXPECT_THAT(r.out, HasSubstr("ok      client library: "));
  EXPECT_THAT(r.out, HasSubstr("daemon: none answers"));
  EXPECT_THAT(Run("NCCL_PROFILER_PLUGIN=x lockstep doctor").out, HasSubstr("note    NCCL_PROFILER_PLUGIN"));
  EXPECT_THAT(Run("CUDA_INJECTION64_PATH=x lockstep doctor").out, HasSubstr("broken  CUDA_INJECTION64_PATH"));
  EXPECT_THAT(Run("LOCKSTEP_CUPTI_LIB=/nowhere lockstep doctor").out,
              HasSubstr("broken  CUPTI: cannot open /nowhere"));
}

}  // namespace
}  // namespace lockstep::cli
