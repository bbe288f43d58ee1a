// Samples of a job for tests: eight ranks on two hosts, all healthy or with rank 5 slow.
#ifndef LOCKSTEP_CLI_TOP_TOP_FIXTURE_H_
#define LOCKSTEP_CLI_TOP_TOP_FIXTURE_H_

#include "cli/top/top_model.h"

namespace lockstep::cli {

inline constexpr int64_t kFirstBegin = 1'700'000'000'000'000'000;
inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kSecond = 1000 * kMs;

inline v1::WatchEvent PaceOf(uint32_t watchers = 1) {
  v1::WatchEvent event;
  v1::SamplingPace& pace = *event.mutable_pace();
  pace.set_job("1000:4711");
  pace.set_job_name("4711");
  pace.set_every_ns(5 * kSecond);
  pace.set_window_ns(kSecond);
  pace.set_watchers(watchers);
  return event;
}

enum class Health { kHealthy, kRank5Slow, kTooFewSteps };

// Returns sample `number`, which begins 5 s and 43 steps after the one before.
inline v1::WatchEvent SampleOf(uint64_t number, Health health) {
  const bool slow = health == Health::kRank5Slow;
  v1::WatchEvent event;
  v1::Sample& s = *event.mutable_sample();
  s.set_number(number);
  s.set_begin_unix_ns(kFirstBegin + static_cast<int64_t>(number) * 5 * kSecond);
  s.set_window_ns(kSecond);
  s.set_sampled_ns(static_cast<int64_t>(number) * kSecond);
  s.set_elapsed_ns(static_cast<int64_t>(number) * 5 * kSecond);
  s.set_took_ns(340 * kMs);
  s.set_world_size(8);
  s.set_hosts(2);
  s.set_steps(health == Health::kTooFewSteps ? 2 : 8);
  s.set_last_step(static_cast<int64_t>(number) * 43);
  s.set_last_step_begin_unix_ns(s.begin_unix_ns() + 900 * kMs);
  s.set_step_ns(slow ? 116.0e6 : 101.0e6);
  s.set_ideal_step_ns(101.0e6);
  s.set_ratio(slow ? 1.1485 : 1.0);
  s.set_lost_ns_per_step(slow ? 15.0e6 : 0.1e6);
  s.set_noise_floor_ns_per_step(0.6e6);
  s.set_verdict("HEALTHY no rank holds the others back by more than 600 us per step (noise floor)");
  if (slow) {
    s.set_verdict(
        "STRAGGLER rank 5 (node-b GPU 1): slow GPU, sure. Fixing it gains 14.9 ms (13%) [14.8 ms, 15.0 ms] "
        "per step; 1 more below");
    v1::SampleStraggler& first = *s.add_stragglers();
    first.set_kind("rank");
    first.add_ranks(5);
    first.add_hosts("node-b");
    first.set_cause("gpu_clock");
    first.set_verdict("sure");
    first.set_confidence(0.99);
    first.set_lost_ns_per_step(14.2e6);
    first.set_gain_ns_per_step(14.9e6);
    v1::SampleStraggler& second = *s.add_stragglers();
    second.set_kind("rank");
    second.add_ranks(2);
    second.set_cause("copy");
    second.set_verdict("likely");
    second.set_lost_ns_per_step(0.8e6);
  }
  for (int rank = 0; rank < 8; ++rank) {
    const bool culprit = slow && rank == 5;
    v1::SampleRank& r = *s.add_ranks();
    r.set_rank(rank);
    r.set_host(rank < 4 ? "node-a" : "node-b");
    r.set_device(static_cast<uint32_t>(rank % 4));
    r.set_self_ns_per_step(culprit ? 99.0e6 : 84.0e6);
    r.set_lost_ns_per_step(culprit ? 14.2e6 : slow && rank == 2 ? 0.8e6 : 1000.0 * rank);
    r.set_span_ns(990 * kMs);
    r.set_exposed_wait_ns(culprit ? 2 * kMs : 130 * kMs + rank * kMs);
    r.set_exposed_transfer_ns(100 * kMs);
    r.set_idle_ns(3 * kMs);
    r.set_overlap_fraction(0.62);
    r.set_lost_records(rank == 7 ? 12 : 0);
  }
  for (int i = 0; i < 4; ++i) {
    v1::SampleGroup& group = *s.add_groups();
    group.set_group("dp_" + std::to_string(i));
    group.set_size(2);
    group.set_op("all_reduce");
    group.set_count(64);
    group.set_skew_p50_ns((4 - i) * kMs);
    group.set_skew_p99_ns((8 - i) * kMs);
    group.set_last_rank(i + 2);
    group.set_last_count(60);
  }
  s.set_records(15812);
  v1::Loss& loss = *s.add_losses();
  loss.set_stage("ring");
  loss.set_records(12);
  loss.set_reason("the ring was full");
  s.set_clock_bound_ns(12'000);
  return event;
}

inline v1::WatchEvent PauseOf(int64_t at_unix_ns) {
  v1::WatchEvent event;
  event.mutable_pause()->set_at_unix_ns(at_unix_ns);
  event.mutable_pause()->set_gave_way(true);
  event.mutable_pause()->set_reason("rank 0: the sample gave way to capture 20260301-120000-abcdef");
  return event;
}

// Returns a notice that rank 5 is slower, and that rank 3 was, with the time per step of three minutes.
inline v1::WatchEvent NoticeOfRank5() {
  v1::WatchEvent event;
  v1::JobSteps& steps = *event.mutable_notice()->mutable_steps();
  for (const int rank : {3, 5}) {
    v1::Slowdown& slowdown = *steps.add_slowdowns();
    slowdown.set_rank(rank);
    slowdown.set_host_name(rank < 4 ? "node-a" : "node-b");
    slowdown.set_since_step(120);
    slowdown.set_noticed_step(131);
    slowdown.set_since_unix_ns(kFirstBegin + 2 * kSecond);
    slowdown.set_noticed_unix_ns(kFirstBegin + 3 * kSecond);
    if (rank == 3) slowdown.set_ended_unix_ns(kFirstBegin + 9 * kSecond);
    slowdown.set_own_before_ns(84 * kMs);
    slowdown.set_own_now_ns(99 * kMs);
    slowdown.set_step_before_ns(101 * kMs);
    slowdown.set_step_now_ns(116 * kMs);
    slowdown.set_capture(rank == 5 ? "20260301-120000-abcdef" : "");
  }
  for (const int64_t ms : {101, 101, 116}) steps.add_trend_ns(ms * kMs);
  return event;
}

inline v1::WatchEvent NoticeOfHang() {
  v1::WatchEvent event;
  v1::JobHang& hang = *event.mutable_notice()->add_hangs();
  hang.set_job("4711");
  hang.set_uid(1000);
  hang.set_cause("never_entered");
  hang.set_sentence(
      "rank 5 (node-b GPU 1) never entered all_reduce #1,532 of dp_0; 7 ranks wait in it for 94 s");
  hang.add_late_ranks(5);
  hang.add_late_hosts("node-b");
  hang.set_since_unix_ns(kFirstBegin);
  hang.set_noticed_unix_ns(kFirstBegin + 60 * kSecond);
  return event;
}

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TOP_TOP_FIXTURE_H_
