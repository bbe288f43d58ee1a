// The types of report.json. A test writes this file from report/fields/report.def, which describes the members:
// LOCKSTEP_UPDATE_GOLDEN=1 ./dev one report_fields_test.cc

export type Known = number | null;
export type Interval = [number, number];

export type Report = {
  schema: 'lockstep.report/1';
  verdict: string;
  capture: CaptureRow;
  ranks: RankRow[];
  steps: StepRow[];
  step_breakdown: BreakdownRow[];
  collectives: CollectiveRow[];
  slowdown: SlowdownRow;
  stragglers: StragglerRow[];
  shared_losses: SharedLossRow[];
  not_judged: NotJudgedRow[];
  fixes: FixRow[];
  not_the_cause: string[];
  waiting: WaitingRow | null;
  efficiency: EfficiencyRow;
  recommendations: string[];
};

export type CaptureRow = {
  id: string;
  job: string;
  source: 'live' | 'import';
  start_unix_ns: Known;
  duration_ns: Known;
  world_size: number;
  hosts: number;
  named_hosts: number;
  steps: number;
  partial: boolean;
  missing_ranks: number[];
  incomplete: IncompleteRow[];
  losses: LossRow[];
  graphs_not_visible: UnrecordedGraphsRow[];
  clock: ClockRow;
  matching: MatchingRow;
  notes: string[];
};

export type IncompleteRow = {
  rank: number;
  reason: string;
  asked_ns: Known;
  recorded_ns: Known;
};

export type LossRow = {
  rank: number;
  stage: 'cupti' | 'client' | 'ring' | 'spool' | 'wire' | 'store' | 'import' | 'nccl' | 'nvtx';
  kind: string;
  records: number;
  from_ns: number;
  to_ns: number;
  reason: string;
};

export type UnrecordedGraphsRow = {
  rank: number;
  launches: number;
};

export type ClockRow = {
  bound_ns: Known;
  hosts: HostClockRow[];
};

export type HostClockRow = {
  host: string;
  offset_ns: Known;
  drift_ppm: Known;
  bound_ns: Known;
  method: 'collectives' | 'network' | 'both' | 'none';
};

export type MatchingRow = {
  instances: number;
  matched_fraction: Known;
  by: MatchedByRow;
  conflicts: number;
  unmatched: number;
  partial: number;
  cut_by_window: number;
  partner_lost: number;
};

export type MatchedByRow = {
  nccl_seq: number;
  pg_seq: number;
  order: number;
  graph: number;
  inferred: number;
};

export type RankRow = {
  rank: number;
  host: string;
  device: number;
  device_name: string | null;
  device_uuid: string | null;
  pid: number;
  incarnation: number;
  span_ns: number;
  compute_ns: number;
  communication_ns: number;
  memory_ns: number;
  overlap_ns: number;
  overlap_fraction: Known;
  exposed_communication_ns: number;
  exposed_transfer_ns: number;
  exposed_wait_ns: number;
  exposed_unsplit_ns: number;
  exposed_memory_ns: number;
  idle_ns: number;
  wait_ns: Known;
  transfer_ns: Known;
  unsplit_ns: number;
  wait_by_clock_ns: Known;
  caused_wait_ns: number;
  late_from_before_ns: Known;
  gpu_utilization: Known;
  sm_efficiency: Known;
  achieved_occupancy: Known;
  tensor_core_fraction: Known;
  gain_ns_per_step: Known;
  gain_at_most_ns_per_step: Known;
  parallel_efficiency: Known;
};

export type StepRow = {
  step: number;
  duration_ns: number;
  efficiency: EfficiencyFactors;
  ranks: StepRankRow[];
};

export type EfficiencyFactors = {
  parallel: Known;
  load_balance: Known;
  communication: Known;
  orchestration: Known;
};

export type StepRankRow = {
  rank: number;
  duration_ns: number;
  self_ns: number;
  wait_ns: Known;
  overlap_ns: number;
  lost_ns: Known;
};

export type BreakdownRow = {
  rank: number;
  kernel_ns: number;
  memcpy_ns: number;
  memset_ns: number;
  communication_ns: number;
  runtime_ns: number;
  dataloader_ns: number;
  cpu_exec_ns: number;
  other_ns: number;
};

export type CollectiveRow = {
  group: string;
  group_size: number;
  op: string;
  count: number;
  bytes: Known;
  bytes_count: number;
  duration_ns: number;
  wait_ns: Known;
  transfer_ns: Known;
  skew_ns: SkewRow;
  algbw_gbps: Known;
  busbw_gbps: Known;
  last_arrivals: LastArrivalsRow[];
};

export type SkewRow = {
  mean: Known;
  p50: Known;
  p99: Known;
  max: Known;
};

export type LastArrivalsRow = {
  rank: number;
  count: number;
};

export type SlowdownRow = {
  step_ns: Known;
  ideal_step_ns: Known;
  ratio: Known;
  lost_ns_per_step: Known;
  noise_floor_ns_per_step: Known;
  interval: Interval | null;
  noise_ns_per_step: Known;
  unlisted_ns_per_step: Known;
  unexplained_ns_per_step: Known;
};

export type StragglerRow = {
  kind: 'rank' | 'host' | 'stage' | 'group' | 'data' | 'job';
  ranks: number[];
  hosts: string[];
  cause:
    | 'gpu_clock'
    | 'gpu_memory'
    | 'contention'
    | 'host_launch'
    | 'data_loader'
    | 'host_pause'
    | 'host_allocator'
    | 'cpu_contention'
    | 'slow_link'
    | 'congestion'
    | 'stage_imbalance'
    | 'sequence_imbalance'
    | 'expert_imbalance'
    | 'copy'
    | 'checkpoint'
    | 'common'
    | 'victim'
    | 'unknown';
  lost_ns_per_step: number;
  share: Known;
  gain_ns_per_step: Known;
  gain_interval: Interval | null;
  verdict: 'sure' | 'likely' | 'undecided';
  confidence: Known;
  since_step: Known;
  until_step: Known;
  affected_steps: number;
  excess_before_ns: Known;
  excess_since_ns: Known;
  caused_wait_ns_per_step: number;
  evidence: string[];
  delayed_ranks: number;
  action: string;
};

export type SharedLossRow = {
  kind: 'input' | 'host_launch' | 'exposed_transfer' | 'exposed_wait' | 'pipeline_bubble' | 'copies' | 'idle_other';
  lost_ns_per_step: number;
  share_of_step: number;
  evidence: string[];
  action: string;
};

export type NotJudgedRow = {
  what: string;
  why: string;
  what_would_tell: string;
};

export type FixRow = {
  entries: number[];
  gain_ns_per_step: number;
  gain_interval: Interval | null;
};

export type WaitingRow = {
  waited_ns_per_step: number;
  unexplained_ns_per_step: number;
  level: 'rank' | 'host';
  places: string[];
  causers: WaitingCauserRow[];
  cells: WaitingCellRow[];
};

export type WaitingCauserRow = {
  rank: number;
  host: string;
  mean_wait_ns_per_step: Known;
  direct_ns_per_step: number;
  passed_on_ns_per_step: number;
  victims: number;
  path: string;
};

export type WaitingCellRow = {
  causer: number;
  victim: number;
  wait_ns_per_step: number;
};

export type EfficiencyRow = {
  parallel: Known;
  load_balance: Known;
  communication: Known;
  orchestration: Known;
  serialisation: Known;
  transfer: Known;
  load_balance_stage: Known;
  load_balance_data: Known;
  load_balance_tensor: Known;
  serialisation_typical: Known;
  serialisation_stragglers: Known;
  critical_communication_ns_per_step: Known;
  groups: GroupEfficiencyRow[];
};

export type GroupEfficiencyRow = {
  group: string;
  ranks: number;
  parallel: Known;
  load_balance: Known;
  communication: Known;
  orchestration: Known;
};
