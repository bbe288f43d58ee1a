// What the page carries, as aggregator/html/page_data.cc writes it: see docs/report-html.md.

export type Known = number | null;
export interface Range2 extends Array<number> {
  0: number;
  1: number;
}

export interface RankRow {
  rank: number;
  host: string;
  device: number;
  device_name: string | null;
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
  caused_wait_ns: number;
  late_from_before_ns: Known;
  gpu_utilization: Known;
  sm_efficiency: Known;
  gain_ns_per_step: Known;
  gain_at_most_ns_per_step: Known;
  parallel_efficiency: Known;
}
export interface CollectiveRow {
  group: string;
  group_size: number;
  op: string;
  count: number;
  bytes: Known;
  duration_ns: number;
  wait_ns: Known;
  transfer_ns: Known;
  skew_ns: { mean: Known; p50: Known; p99: Known; max: Known };
  algbw_gbps: Known;
  busbw_gbps: Known;
  last_arrivals: { rank: number; count: number }[];
}
export interface Straggler {
  kind: string;
  ranks: number[];
  hosts: string[];
  cause: string;
  lost_ns_per_step: number;
  share: Known;
  gain_ns_per_step: Known;
  gain_interval: Range2 | null;
  verdict: string;
  confidence: Known;
  since_step: Known;
  until_step: Known;
  affected_steps: number;
  caused_wait_ns_per_step: number;
  evidence: string[];
  delayed_ranks: number;
  action: string;
}
export interface Waiting {
  waited_ns_per_step: number;
  unexplained_ns_per_step: number;
  level: string;
  places: (number | string)[];
  causers: {
    rank: number;
    host: string;
    direct_ns_per_step: number;
    passed_on_ns_per_step: number;
    victims: number;
    path: string;
  }[];
  cells: { causer: number; victim: number; wait_ns_per_step: number }[];
}
export interface Loss {
  rank: number;
  stage: string;
  kind: string;
  records: number;
  from_ns: number;
  to_ns: number;
  reason: string;
}
export interface Report {
  capture: {
    id: string;
    job: string;
    source: string;
    start_unix_ns: Known;
    duration_ns: Known;
    world_size: number;
    hosts: number;
    steps: number;
    partial: boolean;
    missing_ranks: number[];
    losses: Loss[];
    graphs_not_visible: { rank: number; launches: number }[];
    clock: { bound_ns: Known; hosts: { host: string; offset_ns: Known; drift_ppm: Known; bound_ns: Known; method: string }[] };
    matching: {
      instances: number;
      matched_fraction: Known;
      unmatched: number;
      partial: number;
      cut_by_window: number;
      partner_lost: number;
      conflicts: number;
    };
    notes: string[];
  };
  ranks: RankRow[];
  step_breakdown: Record<string, number>[];
  collectives: CollectiveRow[];
  slowdown: {
    step_ns: Known;
    ideal_step_ns: Known;
    ratio: Known;
    lost_ns_per_step: Known;
    noise_floor_ns_per_step: Known;
    interval: Range2 | null;
    noise_ns_per_step: Known;
    unlisted_ns_per_step: Known;
    unexplained_ns_per_step: Known;
  };
  stragglers: Straggler[];
  fixes: { entries: number[]; gain_ns_per_step: number; gain_interval: Range2 | null }[];
  not_the_cause: string[];
  waiting: Waiting | null;
  efficiency: Record<string, unknown>;
  recommendations: string[];
}

type At = [number, number];
interface RawLane {
  name: string;
  merged: number;
  start: At;
  length: At;
  wait: At;
  name_at: At;
  count: At;
}
interface Raw {
  version: string;
  source: string;
  verdict: string;
  text: string;
  report: Report;
  steps: { numbers: number[]; duration: At; parallel: At; cell_lost: At; cell_duration: At; cell_wait: At };
  skews: number[][];
  timeline: {
    length_ns: number;
    names: string[];
    steps: { step: number; start_ns: number; end_ns: number }[];
    ranks: { rank: number; part: string; lanes: RawLane[]; busy_start_ns: number; busy_width_ns: number; busy: At }[];
  };
  views: { about: string; shown: string; table: ViewTable }[];
}
export interface ViewTable {
  view: string;
  columns: { name: string; unit: string; meaning: string }[];
  rows: Record<string, unknown>[];
  notes: string[];
}
// Numbers in nanoseconds; NaN is unknown. Cells by step, then in the order of report.ranks.
export interface Steps {
  numbers: number[];
  duration: Float32Array;
  parallel: Float32Array;
  lost: Float32Array;
  cell_duration: Float32Array;
  wait: Float32Array;
}
export interface Lane {
  name: string;
  merged: number;
  start: Float32Array;
  length: Float32Array;
  wait: Float32Array;
  name_at: Float32Array;
  count: Float32Array;
}
export interface TimelineRank {
  rank: number;
  part: string;
  lanes: Lane[];
  busy_start_ns: number;
  busy_width_ns: number;
  busy: Float32Array;
}
export interface Timeline {
  length_ns: number;
  names: string[];
  steps: { step: number; start_ns: number; end_ns: number }[];
  ranks: TimelineRank[];
}
export interface Page {
  version: string;
  source: string;
  verdict: string;
  text: string;
  report: Report;
  steps: Steps;
  skews: number[][];
  timeline: Timeline;
  views: Raw['views'];
}

export async function readPage(): Promise<Page> {
  const text = document.getElementById('lockstep-data')?.textContent ?? '';
  const letters = atob(text.trim());
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; ++i) packed[i] = letters.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  const bytes = await new Response(stream).arrayBuffer();
  const length = new DataView(bytes).getUint32(0, true);
  const raw = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length))) as Raw;
  const row = ([first, count]: At) => new Float32Array(bytes, 4 + length + 4 * first, count);
  const lane = (l: RawLane): Lane => ({
    ...l,
    start: row(l.start),
    length: row(l.length),
    wait: row(l.wait),
    name_at: row(l.name_at),
    count: row(l.count),
  });
  return {
    ...raw,
    steps: {
      numbers: raw.steps.numbers,
      duration: row(raw.steps.duration),
      parallel: row(raw.steps.parallel),
      lost: row(raw.steps.cell_lost),
      cell_duration: row(raw.steps.cell_duration),
      wait: row(raw.steps.cell_wait),
    },
    timeline: { ...raw.timeline, ranks: raw.timeline.ranks.map((r) => ({ ...r, lanes: r.lanes.map(lane), busy: row(r.busy) })) },
  };
}
