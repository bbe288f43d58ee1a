#include "base/step_name.h"

#include <string_view>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

TEST(StepName, IsAWordAndANumber) {
  const struct {
    std::string_view name;
    uint64_t number;
  } kSteps[] = {{"ProfilerStep#12", 12}, {"step 3", 3},  {"Step#4", 4},      {"STEP_5", 5},
                {"Iteration 00012", 12}, {"iter: 7", 7}, {"iteration_8", 8}, {"step9", 9},
                {"ProfilerStep#", 0}};
  for (const auto& step : kSteps) {
    uint64_t number = 77;
    EXPECT_TRUE(NamesStep(step.name, &number)) << step.name;
    EXPECT_EQ(number, step.number) << step.name;
  }
}

TEST(StepName, RejectsOtherNames) {
  for (const std::string_view name :
       {"", "step", "steps 3", "step 3 forward", "optimizer step 3", "step -3", "step 1234567890123456789",
        "profilerstep#3", "iterations", "step 3a", "stepper"}) {
    uint64_t number = 0;
    EXPECT_FALSE(NamesStep(name, &number)) << name;
  }
}

}  // namespace
}  // namespace lockstep
