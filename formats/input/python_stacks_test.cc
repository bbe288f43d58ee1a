// Traces with Python functions, in the form that torch.profiler writes with with_stack=True.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "formats/input/input_files_fixture.h"
#include "formats/input/read_input.h"
#include "formats/kineto/kineto_text.h"

namespace lockstep::formats {
namespace {

std::string Function(std::string_view name, int id, int parent, int64_t ts, int64_t dur) {
  return HostRow("python_function", name, ts, dur,
                 absl::StrCat("\"Python id\": ", id,
                              ", \"Python parent id\": ", parent == 0 ? "null" : std::to_string(parent)));
}
std::string Operator(std::string_view name, int64_t ts, int64_t dur, std::string_view args = "") {
  return HostRow("cpu_op", name, ts, dur, args);
}

class PythonStacksTest : public InputFilesTest {
 protected:
  capture::Capture Read(std::vector<std::string> rows) const {
    rows.push_back(KernelRow("1", "1"));
    const std::vector<std::string> paths = {Write("rank0.json", Document(rows))};
    auto capture = ReadInput(paths, {.host = HostDetail::kFrames});
    EXPECT_TRUE(capture.ok()) << capture.status();
    return capture.ok() ? *std::move(capture) : capture::Capture();
  }
  static std::string StackOf(const capture::Capture& capture, std::string_view name) {
    const capture::HostFrames& frames = *capture.ranks.at(0).frames;
    for (const capture::HostFrame& frame : frames.frames) {
      if (capture.Text(frame.name) != name) continue;
      return frame.detail == capture::kNone ? ""
                                            : std::string(capture.Text(frames.details[frame.detail].stack));
    }
    return "no such frame";
  }
};

TEST_F(PythonStacksTest, AnOperatorHasTheFunctionsAroundIt) {
  const capture::Capture capture = Read({
      Function("train.py(9): main", 1, 0, 0, 1000),
      Function("nn.Module: Net_0", 2, 1, 100, 500),
      Function("net.py(3): forward", 3, 2, 110, 400),
      Operator("aten::linear", 120, 50),
      Operator("aten::addmm", 125, 20),
      Operator("aten::mean", 700, 10),
      Operator("aten::after", 1500, 10),
      Operator("aten::known", 130, 1, "\"Call stack\": \"old.py(1): f;old.py(2): g\""),
  });
  EXPECT_EQ(StackOf(capture, "aten::linear"), "net.py(3): forward;nn.Module: Net_0;train.py(9): main");
  EXPECT_EQ(StackOf(capture, "aten::addmm"), StackOf(capture, "aten::linear"));
  EXPECT_EQ(StackOf(capture, "aten::mean"), "train.py(9): main");
  EXPECT_EQ(StackOf(capture, "aten::after"), "");
  EXPECT_EQ(StackOf(capture, "aten::known"), "old.py(1): f;old.py(2): g") << "the profiler's own stack";
}

TEST_F(PythonStacksTest, FunctionsWithoutIdsNestByTime) {
  const capture::Capture capture = Read({
      HostRow("python_function", "outer", 0, 100),
      HostRow("python_function", "before", 5, 10),
      HostRow("python_function", "inner", 20, 50),
      Operator("aten::mm", 30, 5),
  });
  EXPECT_EQ(StackOf(capture, "aten::mm"), "inner;outer");
}

TEST_F(PythonStacksTest, OfFunctionsWithTheSameTimesTheCallerIsOutside) {
  const capture::Capture capture = Read({
      Function("inner", 3, 2, 10, 20),
      Operator("aten::mm", 12, 5),
      Function("outer", 1, 0, 10, 20),
      Function("middle", 2, 1, 10, 20),
  });
  EXPECT_EQ(StackOf(capture, "aten::mm"), "inner;middle;outer");
}

TEST_F(PythonStacksTest, AFunctionEndsAtTheLatestWithItsCaller) {
  const capture::Capture capture = Read({
      Function("main", 1, 0, 0, 100),
      Function("first", 2, 1, 10, 20),
      Function("late", 3, 2, 15, 60),
      Function("second", 4, 1, 40, 20),
      Operator("aten::mm", 45, 5),
  });
  EXPECT_EQ(StackOf(capture, "aten::mm"), "second;main");
}

TEST_F(PythonStacksTest, FunctionsOfOtherThreadsAreNotAround) {
  std::string other = Function("loader", 1, 0, 0, 100);
  other.replace(other.find("\"tid\": 99"), 9, "\"tid\": 77");
  EXPECT_EQ(StackOf(Read({other, Operator("aten::mm", 10, 5)}), "aten::mm"), "");
}

TEST_F(PythonStacksTest, KeepsTheInnermostCallsOfADeepStack) {
  std::vector<std::string> rows;
  for (int i = 0; i < 1000; ++i) rows.push_back(Function(absl::StrCat("f", i), i + 1, i, i, 4000 - 2 * i));
  rows.push_back(Operator("aten::mm", 1500, 5));
  const std::string stack = StackOf(Read(rows), "aten::mm");
  EXPECT_TRUE(stack.starts_with("f999;f998;")) << stack;
  EXPECT_TRUE(stack.ends_with(";f873;f872")) << stack;
}

TEST_F(PythonStacksTest, IdsInACircleAreHarmless) {
  const capture::Capture capture = Read({
      Function("a", 1, 2, 0, 50),
      Function("b", 2, 1, 0, 50),
      Function("self", 3, 3, 5, 20),
      Operator("aten::mm", 10, 5),
  });
  EXPECT_EQ(StackOf(capture, "aten::mm"), "self;b;a");
}

}  // namespace
}  // namespace lockstep::formats
