// Modules and memory of a trace in the format that PyTorch's profiler writes with with_stack and
// profile_memory. The trace is written by hand, so its sums are known. No real trace here has modules. The
// module and memory views of torch-tb-profiler show the same figures for these rows
// (docs/views/operators.md, docs/views/memory.md).
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "formats/common/read_options.h"
#include "formats/input/read_input.h"
#include "views/host/memory.h"
#include "views/host/modules.h"
#include "views/host/operators.h"

namespace lockstep::views {
namespace {

Nanos Us(int64_t us) { return Nanos::Micros(us); }

class Trace {
 public:
  void Python(const std::string& name, int id, int parent, int ts, int dur) {
    Row("X", "python_function", name, ts, dur,
        Field("Python id", id) + ", " + Field("Python parent id", parent));
  }
  void Operator(const std::string& name, int id, int ts, int dur) {
    Row("X", "cpu_op", name, ts, dur, Field("External id", id));
  }
  // Adds a launch of 1 us and the kernel that it launched.
  void Kernel(const std::string& name, int correlation, int op, int launch, int ts, int dur) {
    const std::string both = Field("correlation", correlation) + ", " + Field("External id", op);
    Row("X", "cuda_runtime", "cudaLaunchKernel", launch, 1, both);
    Row("X", "kernel", name, ts, dur, both + ", " + Field("device", 0) + ", " + Field("stream", 7));
  }
  void Memory(int ts, int bytes, int address, int allocated) {
    Row("i", "cpu_instant_event", "[memory]", ts, 0,
        Field("Device Type", 1) + ", " + Field("Device Id", 0) + ", " + Field("Addr", address) + ", " +
            Field("Bytes", bytes) + ", " + Field("Total Allocated", allocated) + ", " +
            Field("Total Reserved", 4096));
  }
  capture::Capture Read() const {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("lockstep-hand-" + std::to_string(::getpid()) + ".json");
    std::ofstream(path)
        << R"({"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [)"
        << rows_ << "]}";
    auto capture =
        formats::ReadInput(std::vector<std::string>{path.string()}, {.host = formats::HostDetail::kFrames});
    std::filesystem::remove(path);
    EXPECT_TRUE(capture.ok()) << capture.status();
    return capture.ok() ? *std::move(capture) : capture::Capture{};
  }

 private:
  static std::string Field(const std::string& key, int value) {
    return "\"" + key + "\": " + std::to_string(value);
  }
  void Row(const std::string& phase, const std::string& category, const std::string& name, int ts, int dur,
           const std::string& args) {
    if (!rows_.empty()) rows_ += ",\n";
    rows_ += R"({"ph": ")" + phase + R"(", "cat": ")" + category + R"(", "name": ")" + name +
             R"(", "pid": )" + (category == "kernel" ? "0" : "1") + R"(, "tid": )" +
             (category == "kernel" ? "7" : "1") + ", " + Field("ts", ts) +
             (phase == "X" ? ", " + Field("dur", dur) : "") + R"(, "args": {)" + args + "}}";
  }
  std::string rows_;
};

Trace NetTrace() {
  Trace t;
  t.Python("train.py(9): main", 1, 0, 995, 390);
  t.Python("nn.Module: Net_0", 2, 1, 1000, 100);
  t.Python("net.py(3): forward", 3, 2, 1001, 98);
  t.Python("nn.Module: Linear_0", 4, 3, 1010, 20);
  t.Operator("aten::linear", 2, 1012, 16);
  t.Operator("aten::empty", 3, 1014, 6);
  t.Kernel("gemm", 101, 3, 1015, 1200, 30);
  t.Python("nn.Module: Linear_0", 5, 3, 1040, 10);
  t.Operator("aten::linear", 4, 1041, 4);
  t.Python("nn.Module: Linear_1", 6, 3, 1060, 30);
  t.Operator("aten::add", 5, 1092, 2);
  t.Kernel("own", 102, 5, 1093, 1240, 5);
  t.Operator("aten::later", 6, 1140, 20);
  t.Kernel("later", 103, 6, 1150, 1300, 7);
  t.Memory(1016, 512, 7001, 1512);
  t.Memory(1042, 256, 7002, 1768);
  t.Memory(1145, -512, 7001, 1256);
  t.Memory(1146, -1000, 7000, 256);
  return t;
}

TEST(HandWrittenTrace, ModulesFormATree) {
  const capture::Capture capture = NetTrace().Read();
  const views::Modules modules = views::ModulesOf(capture, views::ModuleRanks::kTogether);
  ASSERT_EQ(modules.rows.size(), 3u);
  const views::ModuleRow& net = modules.rows[0];
  EXPECT_EQ(net.path, "Net_0");
  EXPECT_EQ(net.occurrences, 1u);
  EXPECT_EQ(net.operators, 1u);
  EXPECT_EQ(net.host, Us(100));
  EXPECT_EQ(net.self_host, Us(38));
  EXPECT_EQ(net.device, Us(35));
  EXPECT_EQ(net.self_device, Us(5));
  for (const views::ModuleRow& row : modules.rows) {
    if (row.name != "Linear_0") continue;
    EXPECT_EQ(row.path, "Net_0/Linear_0");
    EXPECT_EQ(row.occurrences, 2u);
    EXPECT_EQ(row.operators, 2u);
    EXPECT_EQ(row.host, Us(30));
    EXPECT_EQ(row.self_host, Us(10));
    EXPECT_EQ(row.device, Us(30));
    EXPECT_EQ(row.self_device, Us(30));
  }
}

TEST(HandWrittenTrace, OperatorsAreGroupedByTheFunctionsAroundThem) {
  const capture::Capture capture = NetTrace().Read();
  std::vector<std::string> stacks;
  for (const views::OperatorRow& row : views::OperatorsOf(capture, {.stack_depth = 2}).rows) {
    if (row.name == "aten::linear") stacks.push_back(row.stack);
  }
  EXPECT_EQ(stacks, (std::vector<std::string>{"nn.Module: Linear_0;net.py(3): forward"}));
}

TEST(HandWrittenTrace, MemoryIsInUseFromAllocationToRelease) {
  const capture::Capture capture = NetTrace().Read();
  const views::Memory memory = views::MemoryOf(capture);
  ASSERT_EQ(memory.lives.size(), 3u);
  EXPECT_EQ(memory.lives[0].by, "aten::linear (aten::empty)");
  EXPECT_EQ(memory.lives[0].bytes, 512);
  EXPECT_EQ(*memory.lives[0].released - *memory.lives[0].allocated, Us(129));
  EXPECT_EQ(memory.lives[1].by, "aten::linear");
  EXPECT_FALSE(memory.lives[1].released);
  EXPECT_FALSE(memory.lives[2].allocated);
  EXPECT_EQ(memory.lives[2].bytes, 1000);
  ASSERT_EQ(memory.curve.size(), 4u);
  EXPECT_EQ(memory.curve[1].in_use, 1768);
  EXPECT_EQ(memory.curve[1].reserved, 4096);
  ASSERT_FALSE(memory.operators.empty());
  for (const views::OperatorMemory& op : memory.operators) {
    if (op.name != "aten::linear") continue;
    EXPECT_EQ(op.increase, 768);
    EXPECT_EQ(op.self_increase, 256);
    EXPECT_EQ(op.allocations, 2u);
    EXPECT_EQ(op.self_allocations, 1u);
  }
}

}  // namespace
}  // namespace lockstep::views
