#include "cli/hang/hang_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using analysis::HangCause;
using analysis::HangExplanation;

ExplainedJob HangingJob() {
  ExplainedJob job{"train", 4, {}};
  job.explanation.verdict = HangExplanation::Verdict::kHang;
  job.explanation.ranks_seen = 4;
  analysis::HangFinding& finding = job.explanation.findings.emplace_back();
  finding.cause = HangCause::kNeverEntered;
  finding.sentence = "rank 2 never entered all_reduce #2 of world; 3 ranks wait in it for 94 s";
  finding.reasons = {"rank 2, pid 1002, sleeps"};
  finding.wait = {.communicator = 0xAB,
                  .communicator_name = "world",
                  .number = 2,
                  .function = "AllReduce",
                  .waiting = {RankId(0), RankId(1), RankId(3)},
                  .late = {RankId(2)},
                  .waited = Nanos::Seconds(94)};
  return job;
}

TEST(HangOutput, TheFirstWordIsTheVerdict) {
  ExplainedJob healthy{"train", 4, {}};
  healthy.explanation.ranks_seen = 4;
  healthy.explanation.longest_wait = Nanos::Millis(200);
  EXPECT_EQ(HangText({healthy}),
            "NO HANG: 4 ranks of job train with communicators; the longest wait is 0.2 s\n");
  ExplainedJob job = HangingJob();
  EXPECT_EQ(HangText({job}),
            "HANG: rank 2 never entered all_reduce #2 of world; 3 ranks wait in it for 94 s\n"
            "  rank 2, pid 1002, sleeps\n"
            "  job train, 4 of 4 ranks with communicators\n");
  job.explanation.findings[0].may_end = true;
  EXPECT_EQ(HangText({job}).substr(0, 9), "WAITING: ");
  healthy.explanation.unreadable = 1;
  EXPECT_THAT(HangText({healthy}),
              testing::EndsWith("  1 operation could not be read, and may be part of a wait\n"));
}

TEST(HangOutput, RasIsEvidenceOfAHang) {
  using Result = analysis::RasReport::Result;
  ExplainedJob job = HangingJob();
  job.ras.emplace();
  job.ras->result = Result::kAgrees;
  job.ras->nccl_version = "2.27.7";
  job.ras->sentences = {"a", "b"};
  EXPECT_THAT(HangText({job}), testing::HasSubstr("\n  NCCL's RAS (NCCL 2.27.7) agrees: a; b\n"));
  job.ras->result = Result::kContradicts;
  EXPECT_THAT(HangText({job}), testing::HasSubstr("\n  NCCL's RAS (NCCL 2.27.7) contradicts: a; b\n"));
  job.ras->result = Result::kSaysNothing;
  EXPECT_THAT(HangText({job}), testing::HasSubstr("\n  NCCL's RAS (NCCL 2.27.7) says nothing: a; b\n"));
  job.ras = analysis::UnreachableRas("it is off");
  EXPECT_THAT(HangText({job}), testing::HasSubstr("\n  NCCL's RAS is not reachable: it is off\n"));
}

TEST(HangOutput, RasIsTheVerdictOfAJobWithoutProgress) {
  using Result = analysis::RasReport::Result;
  ExplainedJob job{"train", 4, {}};
  job.ras.emplace();
  job.ras->result = Result::kStandsStill;
  job.ras->sentences = {"RAS: rank 2 has called 1 all_reduce"};
  job.ras->between = Nanos::Seconds(60);
  EXPECT_THAT(
      HangText({job}),
      testing::StartsWith("HANG: job train has members behind others, and no count has changed in 60 s\n"
                          "  RAS: rank 2 has called 1 all_reduce\n"));
  job.ras->may_end = true;
  EXPECT_THAT(HangText({job}), testing::StartsWith("WAITING: "));
  job.ras->result = Result::kMoves;
  EXPECT_THAT(HangText({job}), testing::StartsWith("NO HANG: members of job train have different counts"));
  job.ras->result = Result::kNoDifference;
  EXPECT_THAT(HangText({job}), testing::HasSubstr("this does not show whether the job moves"));
  job.ras = analysis::UnreachableRas("it is off");
  EXPECT_THAT(HangText({job}), testing::HasSubstr("is not reachable: it is off"));
}

TEST(HangOutput, TheDocumentHasEveryField) {
  ExplainedJob job = HangingJob();
  job.explanation.unreadable = 2;
  job.explanation.findings[0].links = {{.from = 1,
                                        .to = 2,
                                        .from_rank = RankId(1),
                                        .channels = {0, 3},
                                        .steps_done = 24,
                                        .steps = 80,
                                        .still = Nanos::Seconds(90)}};
  job.explanation.findings[0].stacks = {
      {RankId(2),
       {.python = {.frames = {{"train.py", 7, "step"}, {"x.py", 0, "f"}}, .more = true},
        .native = {{.thread = "train", .frames = {{"libc.so.6", 0, "pause"}}}}}}};
  job.ras.emplace();
  job.ras->result = analysis::RasReport::Result::kAgrees;
  job.ras->nccl_version = "2.28.9";
  job.ras->sentences = {"rank 2 has called 1 all_reduce"};
  EXPECT_EQ(HangJson({job}, {"node7"}, Nanos::Seconds(60)), R"({
  "schema": "lockstep.hang/1",
  "after_ns": 60000000000,
  "jobs": [
    {
      "job": "train",
      "world_size": 4,
      "verdict": "hang",
      "ranks_seen": 4,
      "longest_wait_ns": 0,
      "unreadable_operations": 2,
      "findings": [
        {
          "cause": "never_entered",
          "may_end": false,
          "sentence": "rank 2 never entered all_reduce #2 of world; 3 ranks wait in it for 94 s",
          "communicator": "00000000000000ab",
          "communicator_name": "world",
          "op": "all_reduce",
          "number": 2,
          "waited_ns": 94000000000,
          "waiting_ranks": [
            0,
            1,
            3
          ],
          "late_ranks": [
            2
          ],
          "unknown_members": [],
          "circle": [],
          "reasons": [
            "rank 2, pid 1002, sleeps"
          ],
          "links": [
            {
              "from_member": 1,
              "from_rank": 1,
              "to_member": 2,
              "to_rank": null,
              "waits_for": "network",
              "channels": [
                0,
                3
              ],
              "steps_done": 24,
              "steps": 80,
              "still_ns": 90000000000
            }
          ],
          "stacks": [
            {
              "rank": 2,
              "python": {
                "frames": [
                  {
                    "file": "train.py",
                    "line": 7,
                    "function": "step"
                  },
                  {
                    "file": "x.py",
                    "line": null,
                    "function": "f"
                  }
                ],
                "more_frames": true,
                "problem": ""
              },
              "native": [
                {
                  "thread": "train",
                  "frames": [
                    {
                      "file": "libc.so.6",
                      "function": "pause"
                    }
                  ],
                  "more_frames": false
                }
              ],
              "native_problem": ""
            }
          ]
        }
      ],
      "other_waits": 0,
      "ras": {
        "result": "agrees",
        "problem": "",
        "nccl_version": "2.28.9",
        "sentences": [
          "rank 2 has called 1 all_reduce"
        ],
        "late_ranks": [],
        "may_end": false,
        "between_ns": 0
      }
    }
  ],
  "silent_hosts": [
    "node7"
  ]
}
)");
}

}  // namespace
}  // namespace lockstep::cli
