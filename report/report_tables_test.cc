// Compares every number of the report's ranks, steps and step_breakdown with a count over the written job,
// microsecond by microsecond. The count does not use the code under test.
#include "report/counted_job_fixture.h"

namespace lockstep::report {
namespace {

using capture::ActivityKind;

TEST(ReportTables, HasOneRowPerRankAndOnlyWholeSteps) {
  ForEachJob([](const WrittenJob& job, const Report& report) {
    ASSERT_EQ(report.ranks.size(), job.ranks.size());
    ASSERT_EQ(report.steps.size(), static_cast<size_t>(job.steps - kFirstUsed));
    EXPECT_EQ(report.capture.steps, report.steps.size());
    EXPECT_EQ(report.capture.world_size, static_cast<int32_t>(job.ranks.size()));
    EXPECT_EQ(report.capture.hosts, 1u);
    for (size_t r = 0; r < job.ranks.size(); ++r)
      EXPECT_EQ(report.ranks[r].rank, RankId(static_cast<int32_t>(r)));
    for (size_t k = 0; k < report.steps.size(); ++k)
      EXPECT_EQ(report.steps[k].step, 100 + kFirstUsed + static_cast<int>(k));
  });
}

TEST(ReportTables, ARanksTimesEqualACountOfItsMicroseconds) {
  ForEachJob([](const WrittenJob& job, const Report& report) {
    for (size_t r = 0; r < job.ranks.size(); ++r) {
      SCOPED_TRACE("rank " + std::to_string(r));
      const RankRow& row = report.ranks[r];
      const Clock compute = Marked(job, r, IsCompute), memory = Marked(job, r, IsMemory);
      const Clock communication = Marked(job, r, [](const WrittenOp& op) { return op.communication; });
      Clock wait(compute.size(), 0), transfer(compute.size(), 0);
      int64_t waited = 0, transferred = 0, by_clock = 0, caused = 0;
      for (const WrittenCollective& c : job.collectives) {
        if (LastArriver(c) == static_cast<int>(r) && c.step >= kFirstUsed) {
          for (size_t i = 0; i < c.ranks.size(); ++i)
            caused += c.ranks[i] == static_cast<int>(r) ? 0 : WaitOf(c, i);
        }
        for (size_t i = 0; i < c.ranks.size(); ++i) {
          if (c.ranks[i] != static_cast<int>(r)) continue;
          const int64_t w = WaitOf(c, i);
          Mark(wait, {c.times[i].start, c.times[i].start + w});
          Mark(transfer, {c.times[i].start + w, c.times[i].end});
          waited += w;
          transferred += c.times[i].length() - w;
          if (c.root < 0) by_clock += std::min(LatestStart(c) - c.times[i].start, c.times[i].length());
        }
      }
      int64_t first = job.ranks[r].ops[0].time.start, last = 0;
      for (const WrittenOp& op : job.ranks[r].ops)
        first = std::min(first, op.time.start), last = std::max(last, op.time.end);
      const size_t n = compute.size();
      const auto count = [&](const std::function<bool(size_t)>& yes) { return Micros(Count(n, yes)); };
      EXPECT_EQ(row.span, Micros(last - first));
      EXPECT_EQ(row.compute, count([&](size_t t) { return compute[t]; }));
      EXPECT_EQ(row.communication, count([&](size_t t) { return communication[t]; }));
      EXPECT_EQ(row.memory, count([&](size_t t) { return memory[t]; }));
      EXPECT_EQ(row.overlap, count([&](size_t t) { return compute[t] && communication[t]; }));
      EXPECT_EQ(row.exposed_communication, count([&](size_t t) { return communication[t] && !compute[t]; }));
      EXPECT_EQ(row.exposed_transfer, count([&](size_t t) { return transfer[t] && !compute[t]; }));
      EXPECT_EQ(row.exposed_wait, count([&](size_t t) { return wait[t] && !compute[t] && !transfer[t]; }));
      EXPECT_EQ(row.exposed_unsplit, Nanos());
      EXPECT_EQ(row.exposed_memory,
                count([&](size_t t) { return memory[t] && !compute[t] && !communication[t]; }));
      const int64_t busy = Count(n, [&](size_t t) { return memory[t] || compute[t] || communication[t]; });
      EXPECT_EQ(row.idle, Micros(last - first - busy));
      EXPECT_EQ(row.wait, Micros(waited));
      EXPECT_EQ(row.transfer, Micros(transferred));
      EXPECT_EQ(row.unsplit, Nanos());
      EXPECT_EQ(row.wait_by_clock, Micros(by_clock));
      EXPECT_EQ(row.caused_wait, Micros(caused));
      const auto part = [&](Nanos a, Nanos b) {
        return static_cast<double>(a.ns()) / static_cast<double>(b.ns());
      };
      EXPECT_NEAR(row.overlap_fraction.value(), part(row.overlap, row.communication), 1e-12);
      EXPECT_NEAR(row.gpu_utilization.value(),
                  part(count([&](size_t t) { return compute[t] || communication[t]; }), row.span), 1e-12);
    }
  });
}

TEST(ReportTables, OccupancyIsTheMeanOverKernelMicroseconds) {
  int stated = 0;
  ForEachJob([&](const WrittenJob& job, const Report& report) {
    for (size_t r = 0; r < job.ranks.size(); ++r) {
      const RankRow& row = report.ranks[r];
      std::vector<double> blocks(static_cast<size_t>(LastOf(job)), 0);
      double occupied = 0, with_occupancy = 0, tensor = 0, compute = 0;
      bool any_blocks = false;
      for (const WrittenOp& op : job.ranks[r].ops) {
        if (!IsCompute(op)) continue;
        for (int64_t t = op.time.start; t < op.time.end; ++t) {
          if (op.blocks >= 0) blocks[static_cast<size_t>(t)] += op.blocks;
          if (op.occupancy >= 0) occupied += op.occupancy, with_occupancy += 1;
          tensor += op.tensor_cores ? 1 : 0;
          compute += 1;
        }
        any_blocks |= op.blocks >= 0;
      }
      double filled = 0;
      for (double b : blocks) filled += std::min(1.0, b);
      ASSERT_EQ(row.sm_efficiency.has_value(), any_blocks);
      EXPECT_NEAR(row.sm_efficiency.value_or(0),
                  any_blocks ? filled * 1000 / static_cast<double>(row.span.ns()) : 0, 1e-6);
      ASSERT_EQ(row.achieved_occupancy.has_value(), with_occupancy > 0);
      EXPECT_NEAR(row.achieved_occupancy.value_or(0), with_occupancy > 0 ? occupied / with_occupancy : 0,
                  1e-6);
      EXPECT_NEAR(row.tensor_core_fraction.value(), tensor / compute, 1e-9);
      stated += any_blocks && with_occupancy > 0 && tensor > 0 && tensor < compute ? 1 : 0;
    }
  });
  EXPECT_GT(stated, 10) << "jobs that say nothing prove nothing";
}

TEST(ReportTables, ARanksLatenessIsTheMedianOverItsSteps) {
  ForEachJob([](const WrittenJob& job, const Report& report) {
    for (size_t r = 0; r < job.ranks.size(); ++r) {
      std::vector<int64_t> late;
      for (int k = kFirstUsed; k < job.steps; ++k) {
        const auto step = static_cast<size_t>(k);
        int64_t earliest = job.ranks[r].steps[step].start;
        for (const WrittenRank& other : job.ranks) earliest = std::min(earliest, other.steps[step].start);
        late.push_back(1000 * (job.ranks[r].steps[step].start - earliest));
      }
      std::sort(late.begin(), late.end());
      const int64_t middle = (late[(late.size() - 1) / 2] + late[late.size() / 2]) / 2;
      EXPECT_EQ(report.ranks[r].late_from_before, Nanos(middle)) << "rank " << r;
    }
  });
}

// Returns the interval of a step on one rank. It begins at the end of the previous step, or at the begin of
// the range. It ends at the end of the range, or of the work launched in it.
Stretch SlotOf(const WrittenRank& rank, int step, int first_used) {
  const auto end = [&](int k) {
    int64_t last = rank.steps[static_cast<size_t>(k)].end;
    for (const WrittenOp& op : rank.ops) last = op.step == k ? std::max(last, op.time.end) : last;
    return last;
  };
  Stretch slot{rank.steps[static_cast<size_t>(step)].start, end(step)};
  if (step > first_used) slot.start = std::max(slot.start, end(step - 1));
  return slot;
}

// Returns the job's step: from the last end of device work of the previous step to that of this step.
Stretch JobStep(const WrittenJob& job, int step) {
  Stretch s;
  for (const WrittenRank& r : job.ranks) {
    for (const WrittenOp& op : r.ops) {
      if (op.step == step - 1) s.start = std::max(s.start, op.time.end);
      if (op.step == step) s.end = std::max(s.end, op.time.end);
    }
  }
  return s;
}

TEST(ReportTables, AStepsTimesEqualACountOfItsMicrosecondsOnEveryRank) {
  ForEachJob([](const WrittenJob& job, const Report& report) {
    for (size_t k = 0; k < report.steps.size(); ++k) {
      SCOPED_TRACE("step " + std::to_string(k));
      const int step = kFirstUsed + static_cast<int>(k);
      std::vector<double> computes, actives;
      for (size_t r = 0; r < job.ranks.size(); ++r) {
        const StepRankRow& row = report.steps[k].ranks[r];
        const Stretch slot = SlotOf(job.ranks[r], step, kFirstUsed);
        const Clock compute =
            Marked(job, r, [&](const WrittenOp& op) { return IsCompute(op) && op.step == step; });
        const Clock communication =
            Marked(job, r, [&](const WrittenOp& op) { return op.communication && op.step == step; });
        const Clock active = Marked(job, r, [&](const WrittenOp& op) { return op.step == step; });
        Clock wait(compute.size(), 0);
        for (const WrittenCollective& c : job.collectives) {
          for (size_t i = 0; i < c.ranks.size(); ++i) {
            if (c.step == step && c.ranks[i] == static_cast<int>(r))
              Mark(wait, {c.times[i].start, c.times[i].start + WaitOf(c, i)});
          }
        }
        const size_t n = compute.size();
        const int64_t waited = Count(n, [&](size_t t) {
          return wait[t] && static_cast<int64_t>(t) >= slot.start && static_cast<int64_t>(t) < slot.end;
        });
        EXPECT_EQ(row.duration, Micros(slot.length()));
        EXPECT_EQ(row.wait, Micros(waited));
        EXPECT_EQ(row.self, Micros(slot.length() - waited));
        EXPECT_EQ(row.overlap, Micros(Count(n, [&](size_t t) { return compute[t] && communication[t]; })));
        computes.push_back(static_cast<double>(Count(n, [&](size_t t) { return compute[t]; })));
        actives.push_back(static_cast<double>(Count(n, [&](size_t t) { return active[t]; })));
      }
      const Stretch whole = JobStep(job, step);
      EXPECT_EQ(report.steps[k].duration, Micros(whole.length()));
      ExpectFactors(report.steps[k].efficiency, computes, actives, static_cast<double>(whole.length()));
    }
  });
}

TEST(ReportTables, EveryMicrosecondOfAStepCountsForItsFirstKind) {
  ForEachJob([](const WrittenJob& job, const Report& report) {
    for (size_t r = 0; r < job.ranks.size(); ++r) {
      const WrittenRank& rank = job.ranks[r];
      const auto n = static_cast<size_t>(LastOf(job));
      const auto kind = [&](ActivityKind k) {
        return Marked(job, r, [k](const WrittenOp& op) { return op.kind == k && !op.communication; });
      };
      const auto stretches = [&](const std::vector<Stretch>& list) {
        Clock clock(n, 0);
        for (const Stretch& s : list) Mark(clock, s);
        return clock;
      };
      const std::vector<Clock> kinds = {
          kind(ActivityKind::kKernel), kind(ActivityKind::kMemcpy),
          kind(ActivityKind::kMemset), Marked(job, r, [](const WrittenOp& op) { return op.communication; }),
          stretches(rank.calls),       stretches(rank.loaders),
          stretches(rank.operators)};
      Clock in_steps(n, 0);
      for (int k = kFirstUsed; k < job.steps; ++k) Mark(in_steps, SlotOf(rank, k, kFirstUsed));
      std::vector<int64_t> us(kinds.size() + 1, 0);
      for (size_t t = 0; t < n; ++t) {
        if (!in_steps[t]) continue;
        size_t first = 0;
        while (first < kinds.size() && !kinds[first][t]) ++first;
        ++us[first];
      }
      const BreakdownRow& b = report.step_breakdown[r];
      const std::vector<Nanos> breakdown = {b.kernel,  b.memcpy,     b.memset,   b.communication,
                                            b.runtime, b.dataloader, b.cpu_exec, b.other};
      const auto steps = static_cast<int64_t>(report.steps.size());
      int64_t sum = 0, breakdown_sum = 0;
      for (size_t i = 0; i < breakdown.size(); ++i) {
        // Each kind except the rest is rounded down.
        EXPECT_NEAR(static_cast<double>(breakdown[i].ns()),
                    static_cast<double>(us[i] * 1000) / static_cast<double>(steps), 8)
            << "kind " << i;
        sum += us[i] * 1000;
        breakdown_sum += breakdown[i].ns();
      }
      EXPECT_EQ(breakdown_sum, sum / steps);
    }
  });
}

}  // namespace
}  // namespace lockstep::report
