#include "formats/kineto/kineto_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "formats/common/read_options.h"
#include "formats/kineto/kineto_messages.h"
#include "formats/kineto/kineto_text.h"

namespace lockstep::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

KinetoFile ReadKineto(const std::string& text, ReadMode mode = ReadMode::kOneThread) {
  MemorySource source(text);
  return ReadKineto(source, mode, HostDetail::kUnions, nullptr);
}

std::vector<HostInterval> Times(const KinetoFile& file) {
  std::vector<HostInterval> times;
  for (const KinetoDevice& device : file.devices) {
    for (const capture::DeviceActivity& a : device.activities) times.push_back({a.start, a.end});
  }
  return times;
}

HostInterval Ns(int64_t start, int64_t end) { return {HostTime(start), HostTime(end)}; }

TEST(KinetoReader, ABareListAndAnObjectHoldTheSameRows) {
  const std::vector<std::string> rows = {KernelRow("10", "5"), KernelRow("20.125", "0.001")};
  for (const std::string& text :
       {Document(rows), "[" + Joined(rows) + "]", "\xEF\xBB\xBF \n[\n" + Joined(rows, "\n,\n") + "\n]\n",
        "{\"traceEvents\":[" + Joined(rows, ",") + "]}"}) {
    const KinetoFile file = ReadKineto(text);
    EXPECT_THAT(Times(file), ElementsAre(Ns(10000, 15000), Ns(20125, 20126))) << text;
    EXPECT_EQ(file.damage.count(), 0u);
    EXPECT_EQ(file.broken_off, "");
  }
}

TEST(KinetoReader, AcceptsAnyOrderOfARowsKeys) {
  const KinetoFile file = ReadKineto(Document({
      R"({"args": {"stream": 3, "device": 2, "correlation": 8}, "dur": 4, "ts": 1, "name": "k", "cat": "kernel", "ph": "X"})",
      R"j({"ts": 9, "args": {"stream": 3, "device": 2, "bytes": 64}, "dur": 4, "name": "Memset (Device)", "ph": "X", "cat": "gpu_memset"})j",
  }));
  ASSERT_EQ(file.devices.size(), 1u);
  EXPECT_EQ(file.devices[0].device, DeviceId(2));
  ASSERT_EQ(file.devices[0].activities.size(), 2u);
  EXPECT_EQ(file.devices[0].activities[0].stream, StreamId(3));
  EXPECT_EQ(file.devices[0].activities[0].correlation, CorrelationId(8));
  ASSERT_EQ(file.devices[0].copy_details.size(), 1u);
  EXPECT_EQ(file.devices[0].copy_details[0].bytes, 64u);
}

TEST(KinetoReader, ReadsTheCapitalisedCategoriesOf2021) {
  const KinetoFile file = ReadKineto(Document({
      R"({"ph": "X", "cat": "Kernel", "name": "k", "pid": 0, "tid": "stream 15", "ts": 1, "dur": 2, "args": {"correlation": 3}})",
      R"j({"ph": "X", "cat": "Memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": "stream 15", "ts": 3, "dur": 2, "args": {"bytes": 8}})j",
      R"j({"ph": "X", "cat": "Memset", "name": "Memset (Device)", "pid": 0, "tid": "stream 15", "ts": 5, "dur": 2, "args": {}})j",
      R"({"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": "4199692096", "ts": 0, "dur": 1, "args": {"cbid": 211, "correlation": 3}})",
      R"({"ph": "X", "cat": "Operator", "name": "aten::add", "pid": 9, "tid": "thread x", "ts": 0, "dur": 9, "args": {}})",
      R"({"ph": "X", "cat": "Operator", "name": "ProfilerStep#3", "pid": 9, "tid": "thread x", "ts": 0, "dur": 9, "args": {}})",
  }));
  ASSERT_EQ(file.devices.size(), 1u);
  const KinetoDevice& device = file.devices[0];
  ASSERT_EQ(device.activities.size(), 3u);
  EXPECT_EQ(device.activities[0].stream, StreamId(15));
  EXPECT_EQ(device.activities[1].kind, capture::ActivityKind::kMemcpy);
  EXPECT_EQ(device.copy_details[0].copy_kind, 1);
  EXPECT_EQ(device.copy_details[0].src_kind, 2);
  EXPECT_EQ(device.copy_details[0].dst_kind, 3);
  EXPECT_EQ(device.activities[2].kind, capture::ActivityKind::kMemset);
  ASSERT_EQ(file.api_calls.size(), 1u);
  EXPECT_EQ(file.api_calls[0].thread, ThreadId(4199692096));
  EXPECT_EQ(file.api_calls[0].cbid, 211u);
  EXPECT_EQ(file.pid, 9);
  ASSERT_EQ(file.ranges.size(), 1u);
  EXPECT_LT(file.ranges[0].thread, ThreadId(0)) << "a thread known by name only";
}

TEST(KinetoReader, OnlyDeviceCategoriesAreDeviceRows) {
  KinetoFile file = ReadKineto(Document({
      HostRow("cpu_op", "triton_kernel", 0, 10, R"("stream": 7, "External id": 4)"),
      R"({"ph": "X", "cat": "gpu_user_annotation", "name": "fwd", "pid": 0, "tid": 7, "ts": 0, "dur": 50, "args": {"stream": 7}})",
      R"({"ph": "X", "cat": "overhead", "name": "Buffer Flush", "pid": -1, "tid": 0, "ts": 0, "dur": 50})",
      R"({"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": 7, "ts": 5, "dur": 1, "args": {"stream": 7, "wait_on_stream": 20, "wait_on_cuda_event_id": 31, "correlation": 6, "device": 0}})",
      R"({"ph": "X", "cat": "python_function", "name": "forward", "pid": 1, "tid": 1, "ts": 0, "dur": 60})",
      KernelRow("20", "0"),
  }));
  EXPECT_THAT(Times(file), ElementsAre(Ns(20000, 20000))) << "a zero-length kernel is a record";
  ASSERT_EQ(file.syncs.size(), 1u);
  EXPECT_EQ(file.syncs[0].sync.type, capture::SyncType::kStreamWaitEvent);
  EXPECT_EQ(file.syncs[0].sync.event, 31u);
  EXPECT_EQ(file.syncs[0].sync.stream, StreamId(7));
  EXPECT_EQ(file.window, Ns(0, 60000)) << "the window covers rows that are not kept, too";
}

TEST(KinetoReader, ReadsMetadataBeforeAndAfterTheEvents) {
  const std::string info =
      R"("distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 16}, "host_name": "node\u00e9", "baseTimeNanoseconds": 1711964646000000000, "deviceProperties": [{"id": 0, "name": "H100", "numSms": 132, "computeMajor": 9, "maxThreadsPerMultiprocessor": 2048}])";
  for (const std::string& text :
       {Document({KernelRow("1", "1")}, info + ", "), Document({KernelRow("1", "1")}, "", ", " + info)}) {
    const KinetoFile file = ReadKineto(text);
    EXPECT_EQ(file.rank, RankId(3));
    EXPECT_EQ(file.world_size, 16);
    EXPECT_EQ(file.host_name, "node\xC3\xA9");
    EXPECT_EQ(file.base, Nanos(1711964646000000000));
    ASSERT_TRUE(file.properties.contains(0));
    EXPECT_EQ(file.properties.at(0).sms, 132);
    EXPECT_EQ(file.properties.at(0).max_threads_per_sm, 2048);
  }
}

TEST(KinetoReader, IgnoresMembersOfWrongTypes) {
  for (const char* member :
       {R"("distributedInfo": null, )", R"("distributedInfo": {"rank": "three"}, )",
        R"("distributedInfo": {"rank": -4}, )", R"("distributedInfo": {"rank": 99999999999}, )",
        R"("baseTimeNanoseconds": N/A, )", R"("deviceProperties": 7, )",
        R"("deviceProperties": [{"id": -1}, 4, {"name": "x"}], )", R"("host_name": 12, )",
        R"("traceEvents": 3, )"}) {
    const KinetoFile file = ReadKineto(Document({KernelRow("1", "1")}, member));
    EXPECT_EQ(Times(file).size(), 1u) << member;
    EXPECT_FALSE(file.rank.has_value()) << member;
    EXPECT_TRUE(file.properties.empty()) << member;
  }
}

TEST(KinetoReader, ATraceInsideAnotherObjectIsRead) {
  const KinetoFile file = ReadKineto(R"({"run": 7, "data": [{"text": "\"traceEvents\": [", "traceEvents" :)"
                                     "\n"
                                     R"( [)" +
                                     KernelRow("1", "1") + "]}]}");
  EXPECT_EQ(Times(file).size(), 1u);
  EXPECT_EQ(file.damage.count(), 0u);
}

TEST(KinetoReader, CollectiveArgumentsBecomeACollective) {
  const std::string args =
      R"(, "Collective name": "_reduce_scatter_base", "In msg nelems": 64, "Out msg nelems": 16, "Group size": 4, "dtype": "BFloat16", "In split size": "[]", "Out split size": "[]", "Process Group Name": "3", "Process Group Description": "tensor", "Process Group Ranks": "[4, 5, 6, 7]", "Seq": 41)";
  KinetoFile file = ReadKineto(Document({KernelRow("1", "1", "anything", args)}));
  ASSERT_EQ(file.devices.at(0).collectives.size(), 1u);
  const capture::Collective& c = file.devices[0].collectives[0];
  EXPECT_EQ(c.activity, 0u);
  EXPECT_EQ(c.op, capture::CollectiveOp::kReduceScatter);
  EXPECT_EQ(c.bytes, 32) << "NCCL counts a reduce-scatter by what a rank gets";
  EXPECT_EQ(c.sequence, 41);
  EXPECT_EQ(c.source, capture::MatchSource::kGroupSequence);
  ASSERT_EQ(file.groups.size(), 1u);
  EXPECT_EQ(file.groups[0].name, "tensor");
  EXPECT_EQ(file.groups[0].size, 4);
  EXPECT_THAT(file.groups[0].members, ElementsAre(RankId(4), RankId(5), RankId(6), RankId(7)));
  EXPECT_TRUE(file.devices[0].activities[0].communication);
}

TEST(KinetoReader, DistinguishesGroupsOfOneNameByMembers) {
  const auto row = [](const char* ranks) {
    return KernelRow(
        "1", "1", "nccl",
        std::string(
            R"(, "Collective name": "allreduce", "Group size": 2, "Process Group Name": "1", "Process Group Ranks": ")") +
            ranks + "\"");
  };
  const KinetoFile file =
      ReadKineto(Document({row("[0, 1]"), row("[2, 3]"), row("[0, 1]"), row("[0, ...]")}));
  ASSERT_EQ(file.groups.size(), 3u);
  const auto& c = file.devices.at(0).collectives;
  EXPECT_EQ(c[0].group, c[2].group);
  EXPECT_NE(c[0].group, c[1].group);
  EXPECT_TRUE(file.groups[c[3].group].members.empty()) << "an elided list has no members";
  EXPECT_EQ(c[0].bytes, -1);
}

TEST(KinetoReader, UnequalSplitsMakeAnAllToAllV) {
  const auto row = [](const char* name, const char* splits) {
    return KernelRow(
        "1", "1", "nccl",
        std::string(R"(, "Collective name": ")") + name + R"(", "In split size": ")" + splits + "\"");
  };
  const KinetoFile file = ReadKineto(Document({row("all_to_all", "[]"), row("all_to_all", "[4, 4]"),
                                               row("all_to_all", "[4, 5]"), row("all_to_allv", "[2, 1]")}));
  std::vector<capture::CollectiveOp> ops;
  for (const capture::Collective& c : file.devices.at(0).collectives) ops.push_back(c.op);
  EXPECT_THAT(ops, ElementsAre(capture::CollectiveOp::kAllToAll, capture::CollectiveOp::kAllToAll,
                               capture::CollectiveOp::kAllToAllV, capture::CollectiveOp::kAllToAllV));
}

TEST(KinetoReader, UnquotedWordsInsteadOfNumbersLoseNothingElse) {
  KinetoFile file = ReadKineto(Document({
      KernelRow(
          "1", "1", "a",
          R"(, "dtype": N/A, "blocks per SM": NaN, "warps per SM": -Infinity, "est. achieved occupancy %": N/A)"),
      KernelRow("2", "1", "b", R"(, "registers per thread": 99999999999999, "graph id": -3)"),
  }));
  EXPECT_EQ(Times(file).size(), 2u);
  EXPECT_EQ(file.damage.count(), 0u);
  EXPECT_LT(file.devices[0].kernel_details[0].occupancy_percent, 0) << "unknown";
}

TEST(KinetoReader, CountsRowsWithoutAUsableTimeByPosition) {
  const std::string text =
      Document({KernelRow("N/A", "1"), KernelRow("1", "1"), KernelRow("5", "-2"), KernelRow("1e300", "1"),
                KernelRow("9223372036854775.807", "1"), KernelRow("7", "NaN"), KernelRow("-4.5", "1")});
  const KinetoFile file = ReadKineto(text);
  EXPECT_THAT(Times(file), ElementsAre(Ns(1000, 2000), Ns(-4500, -3500)));
  EXPECT_EQ(file.damage.count(), 5u);
  EXPECT_THAT(file.damage.Describe(), HasSubstr("at byte " + std::to_string(text.find("\"ph\"") + 1)));
}

TEST(KinetoReader, InvalidUtf8DoesNotLoseTheRow) {
  KinetoFile file =
      ReadKineto(Document({KernelRow("1", "1", "bad\xFF\xC0name"), KernelRow("2", "1", "tab\there\x01"),
                           KernelRow("3", "1", "ok\xC3\xA9")}));
  EXPECT_EQ(Times(file).size(), 3u);
  EXPECT_EQ(file.damage.count(), 0u);
  EXPECT_EQ(file.strings.Text(file.devices[0].activities[0].name), "bad??name");
  EXPECT_EQ(file.strings.Text(file.devices[0].activities[2].name), "ok\xC3\xA9");
}

TEST(KinetoReader, DecodesEscapesInNames) {
  KinetoFile file = ReadKineto(Document({KernelRow("1", "1", R"(a\"b\\c\u00e9\/)")}));
  EXPECT_EQ(file.strings.Text(file.devices.at(0).activities[0].name), "a\"b\\c\xC3\xA9/");
}

TEST(KinetoReader, SeparatesDevicesOfOneProcess) {
  const auto on = [](int device, int ts) {
    return R"({"ph": "X", "cat": "kernel", "name": "k", "pid": )" + std::to_string(device) +
           R"(, "tid": 7, "ts": )" + std::to_string(ts) + R"(, "dur": 1, "args": {"stream": 7}})";
  };
  const KinetoFile file = ReadKineto(Document({on(1, 1), on(0, 2), on(1, 3)}));
  ASSERT_EQ(file.devices.size(), 2u);
  EXPECT_EQ(file.devices[0].activities.size(), 2u);
}

TEST(KinetoReader, OperatorsAndTheDataLoaderBecomeUnions) {
  KinetoFile file = ReadKineto(Document(
      {HostRow("cpu_op", "aten::mm", 10, 10), HostRow("cpu_op", "aten::addmm", 5, 20),
       HostRow("cpu_op", "aten::relu", 40, 5),
       HostRow("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 50),
       HostRow("user_annotation", "ProfilerStep#1", 0, 200)}));
  EXPECT_THAT(file.operators.Take(), ElementsAre(Ns(5000, 25000), Ns(40000, 45000)));
  EXPECT_THAT(file.data_loader.Take(), ElementsAre(Ns(100000, 150000)));
  EXPECT_EQ(file.ranges.size(), 2u);
}

// Rows of all kinds. Some are long enough to cross any block border.
std::string LargeTrace(int rows) {
  std::vector<std::string> all;
  for (int i = 0; i < rows; ++i) {
    const std::string ts = std::to_string(1000 + 10 * i) + "." + std::to_string(100 + i % 900);
    const size_t length = i % 1000 == 7 ? 40000 : static_cast<size_t>(i % 97);
    all.push_back(KernelRow(ts, "3.5", "k" + std::to_string(i % 50) + std::string(length, 'x') + R"(\"{[)"));
    all.push_back(HostRow("cpu_op", "aten::x", 1000 + 10 * i, 4,
                          R"("Input Dims": [[], [[1, 2], {"a": []}], []], "Call stack": "a\\b{\"]")"));
  }
  return Document(all, R"("distributedInfo": {"rank": 1}, )", R"(, "traceName": "x")");
}

TEST(KinetoReader, ReadsRowsAcrossBlocksOnOneAndTwoThreads) {
  constexpr int kRows = 12000;
  const std::string text = LargeTrace(kRows);
  ASSERT_GT(text.size(), size_t{4} << 20);
  for (ReadMode mode : {ReadMode::kOneThread, ReadMode::kPipeline}) {
    KinetoFile file = ReadKineto(text, mode);
    EXPECT_EQ(file.damage.count(), 0u) << file.damage.Describe();
    EXPECT_EQ(file.broken_off, "");
    ASSERT_EQ(Times(file).size(), static_cast<size_t>(kRows));
    const auto& activities = file.devices[0].activities;
    for (int i = 0; i < kRows; ++i) {
      ASSERT_EQ(activities[i].start.ns(), (1000 + 10 * int64_t{i}) * 1000 + 100 + i % 900);
    }
    EXPECT_EQ(file.operators.Take().size(), static_cast<size_t>(kRows));
    EXPECT_EQ(file.rank, RankId(1));
  }
}

TEST(KinetoReader, AnEventLargerThanABlockIsRead) {
  const std::string stack(3 << 20, 's');
  const KinetoFile file = ReadKineto(
      Document({KernelRow("1", "1"), KernelRow("2", "1", "big", R"(, "Call stack": ")" + stack + "\""),
                KernelRow("3", "1")}));
  EXPECT_THAT(Times(file), ElementsAre(Ns(1000, 2000), Ns(2000, 3000), Ns(3000, 4000)));
  EXPECT_EQ(file.damage.count(), 0u);
}

TEST(KinetoReader, RecognisesFilesThatAreNotTraces) {
  EXPECT_FALSE(ReadKineto("").is_json);
  EXPECT_FALSE(ReadKineto("hello").is_json);
  const KinetoFile report = ReadKineto(R"({"schema": "x", "ranks": [{"rank": 0}]})");
  EXPECT_TRUE(report.is_json);
  EXPECT_FALSE(report.has_events);
  EXPECT_EQ(report.damage.count(), 0u);
  EXPECT_EQ(report.broken_off, "");
  const KinetoFile empty = ReadKineto(R"({"traceEvents": []})");
  EXPECT_TRUE(empty.has_events);
  EXPECT_TRUE(empty.devices.empty());
  EXPECT_EQ(empty.broken_off, "");
}

// PyTorch gives the kernel of grouped messages no arguments, but a row for each message.
TEST(KinetoReader, RowsBeforeALaunchDescribeTheMessagesOfItsKernel) {
  const std::string group =
      R"("dtype": "BFloat16", "In msg nelems": 100, "Out msg nelems": 100, "Group size": 3, "Process Group Name": "pp", "Process Group Ranks": "[2, 4, 6]")";
  const auto message = [&](const std::string& op, const std::string& ts, const std::string& peers) {
    return R"({"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 4242, "tid": 99, "ts": )" +
           ts + R"(, "dur": 0.1, "args": {"Collective name": ")" + op + R"(", )" + group + ", " + peers +
           "}}";
  };
  const auto launch = [](const std::string& ts, const std::string& correlation) {
    return R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 4242, "tid": 99, "ts": )" +
           ts + R"(, "dur": 4, "args": {"correlation": )" + correlation + "}}";
  };
  const auto kernel = [](const std::string& ts, const std::string& correlation, const std::string& args) {
    return R"--({"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "pid": 0, "tid": 24, "ts": )--" +
           ts + R"(, "dur": 50, "args": {"device": 0, "stream": 24, "correlation": )" + correlation + args +
           "}}";
  };
  const std::string text = Document({
      message("send", "10", R"("Src Rank": 4, "Dst Rank": 6)"),
      message("recv", "11", R"("Src Rank": 2, "Dst Rank": 4)"),
      launch("12", "1"),
      kernel("20", "1", ""),
      message("recv", "30", R"("Src Rank": 6, "Dst Rank": 4)"),
      launch("31", "2"),
      kernel("80", "2", ""),
      // The kernel has arguments of its own, so the row adds nothing.
      message("send", "50", R"("Dst Rank": 6)"),
      launch("51", "3"),
      kernel("140", "3", R"(, "Collective name": "send", "Dst Rank": 6, )" + group),
      launch("60", "4"),
      kernel("200", "4", ""),
  });
  KinetoFile file = ReadKineto(text);
  AttachAnnounced(file);
  ASSERT_EQ(file.devices.size(), 1u);
  const std::vector<capture::Collective>& c = file.devices[0].collectives;
  ASSERT_EQ(c.size(), 4u);
  const auto of_kernel = [&](uint32_t activity) {
    std::vector<const capture::Collective*> found;
    for (const capture::Collective& one : c) {
      if (one.activity == activity) found.push_back(&one);
    }
    return found;
  };
  ASSERT_EQ(of_kernel(0).size(), 2u);
  EXPECT_EQ(of_kernel(0)[0]->op, capture::CollectiveOp::kSend);
  EXPECT_EQ(of_kernel(0)[0]->peer, 2) << "rank 6 of the job is rank 2 in the group";
  EXPECT_EQ(of_kernel(0)[0]->bytes, 200);
  EXPECT_EQ(of_kernel(0)[1]->op, capture::CollectiveOp::kReceive);
  EXPECT_EQ(of_kernel(0)[1]->peer, 0);
  ASSERT_EQ(of_kernel(1).size(), 1u);
  EXPECT_EQ(of_kernel(1)[0]->peer, 2);
  EXPECT_EQ(of_kernel(2).size(), 1u);
  EXPECT_TRUE(of_kernel(3).empty());
  EXPECT_EQ(file.devices[0].activities[3].collective, capture::kNone);
}

KinetoFile ReadFrames(const std::string& text) {
  MemorySource source(text);
  return ReadKineto(source, ReadMode::kOneThread, HostDetail::kFrames, nullptr);
}

TEST(KinetoReader, KeepsFramesOnRequest) {
  const std::string text = Document({
      KernelRow("10", "5"),
      HostRow(
          "cpu_op", "aten::mm", 1, 8,
          R"("External id": 3, "Input Dims": [[8, 4],[4,4], []], "Input type": ["float", "c10::Half", "Scalar"], "Fwd thread id": 1, "Sequence number": 77)"),
      HostRow("Operator", "aten::add", 20, 8,
              R"("Input dims": [[8,  4]], "Call stack": "a.py(1): f;b.py(2): g", "Input type": [])"),
      HostRow("user_annotation", "forward", 0, 30),
      HostRow("python_function", "nn.Module: Linear_0", 2, 3,
              R"("Python id": 5, "Python parent id": 4, "Python module id": 0)"),
      HostRow("python_function", "model.py(3): forward", 1, 5, R"("Python id": 4, "Python parent id": null)"),
      R"({"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 4242, "tid": 99, "ts": 3, "args": {"Device Type": 1, "Device Id": 2, "Addr": 18446744073709551615, "Bytes": -512, "Total Allocated": 1000, "Total Reserved": 2000}})",
      R"({"ph": "i", "s": "t", "name": "[memory]", "pid": 4242, "tid": 99, "ts": 4, "args": {"Device Type": 0, "Device Id": -1, "Bytes": 64}})",
      R"({"ph": "i", "s": "g", "name": "Iteration Start", "pid": "Traces", "tid": 0, "ts": 4})",
  });
  const KinetoFile file = ReadFrames(text);
  EXPECT_EQ(file.damage.count(), 0u);
  ASSERT_EQ(file.frames.frames.size(), 5u);
  const auto name = [&](size_t i) { return file.strings.Text(file.frames.frames[i].name); };
  const auto detail = [&](size_t i) { return file.frames.details[file.frames.frames[i].detail]; };
  EXPECT_EQ(name(0), "aten::mm");
  EXPECT_EQ(file.strings.Text(detail(0).shapes), "[[8, 4], [4, 4], []]");
  EXPECT_EQ(file.strings.Text(detail(0).types), R"(["float", "c10::Half", "Scalar"])");
  EXPECT_EQ(detail(0).sequence, 77);
  EXPECT_EQ(detail(0).forward_thread, ThreadId(1));
  EXPECT_EQ(file.strings.Text(detail(1).shapes), "[[8, 4]]") << "one spelling";
  EXPECT_EQ(file.strings.Text(detail(1).stack), "a.py(1): f;b.py(2): g");
  EXPECT_EQ(file.frames.frames[2].kind, capture::FrameKind::kAnnotation);
  EXPECT_EQ(file.frames.frames[2].detail, capture::kNone) << "nothing is known of it";
  EXPECT_EQ(file.frames.frames[3].kind, capture::FrameKind::kModule);
  EXPECT_EQ(detail(3).python_id, 5);
  EXPECT_EQ(detail(3).python_parent, 4);
  EXPECT_EQ(file.frames.frames[4].kind, capture::FrameKind::kPython);
  EXPECT_EQ(detail(4).python_parent, -1);
  ASSERT_EQ(file.frames.allocations.size(), 2u);
  EXPECT_EQ(file.frames.allocations[0].bytes, -512);
  EXPECT_EQ(file.frames.allocations[0].device, 2);
  EXPECT_EQ(file.frames.allocations[0].address, 18446744073709551615u);
  EXPECT_EQ(file.frames.allocations[0].reserved, 2000);
  EXPECT_EQ(file.frames.allocations[1].device, -1);
  EXPECT_FALSE(file.frames.allocations[1].allocated);

  const KinetoFile without = ReadKineto(text);
  EXPECT_TRUE(without.frames.frames.empty());
  EXPECT_TRUE(without.frames.allocations.empty());
  EXPECT_EQ(without.rows, file.rows);
  EXPECT_EQ(without.window.end, file.window.end);
}

}  // namespace
}  // namespace lockstep::formats
