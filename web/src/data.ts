// The data of the page, as web/page/page_data.cc writes it. See docs/report-html.md.
import type { Report } from './report_types';

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
  words: Words;
  collectives: CollectiveDetail[];
  memory: (Omit<MemoryCurve, 'time' | 'in_use'> & { time: At; in_use: At })[];
  timeline: {
    length_ns: number;
    names: string[];
    steps: { step: number; start_ns: number; end_ns: number }[];
    ranks: { rank: number; part: string; lanes: RawLane[]; busy_start_ns: number; busy_width_ns: number; busy: At; queued: At }[];
  };
  flames: (Pick<FlameChart, 'kind' | 'names' | 'counted_ranks' | 'left_out'> & {
    name_at: At;
    parent: At;
    mean: At;
    ranks: { rank: number; time: At }[];
  })[];
  views: { about: string; shown: string; table: ViewTable }[];
}
// The words of the text report that report.json lacks. The lists have the order of the report's.
export interface Words {
  page: string;
  actions: { text: string; can_wait: boolean }[];
  stragglers: { name: string; cause: string; fix: string }[];
  shared_losses: { name: string; leads: boolean }[];
}
// By report.collectives. `sizes`: bytes of one rank, bus bandwidth in GB/s, number of instances.
export interface CollectiveDetail {
  skews: number[];
  members: number[];
  sizes: [number, number, number][];
}
export interface MemoryCurve {
  rank: number;
  place: string;
  kind: string;
  relative: boolean;
  time: Float32Array;
  in_use: Float32Array;
  peaks: { time_ns: number; bytes: number; owners: { name: string; bytes: number }[]; unknown_bytes: number }[];
}
// By frame of the tree. A frame comes before the frames inside it, whose `parent` is its place; -1: an outermost frame.
// Times are in nanoseconds and include the frames inside.
export interface FlameChart {
  kind: 'device' | 'host' | 'python';
  names: string[];
  counted_ranks: number;
  left_out: number;
  name_at: Float32Array;
  parent: Float32Array;
  mean: Float32Array;
  ranks: { rank: number; time: Float32Array }[];
}
export interface ViewTable {
  view: string;
  columns: { name: string; unit: string; meaning: string }[];
  rows: Record<string, unknown>[];
  notes: string[];
}
// Numbers are in nanoseconds. NaN means unknown. Cells are ordered by step, and within a step as
// report.ranks.
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
  queued: Float32Array;
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
  words: Words;
  collectives: CollectiveDetail[];
  memory: MemoryCurve[];
  timeline: Timeline;
  flames: FlameChart[];
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
    memory: raw.memory.map((m) => ({ ...m, time: row(m.time), in_use: row(m.in_use) })),
    flames: raw.flames.map((f) => ({
      ...f,
      name_at: row(f.name_at),
      parent: row(f.parent),
      mean: row(f.mean),
      ranks: f.ranks.map((r) => ({ rank: r.rank, time: row(r.time) })),
    })),
    timeline: { ...raw.timeline, ranks: raw.timeline.ranks.map((r) => ({ ...r, lanes: r.lanes.map(lane), busy: row(r.busy), queued: row(r.queued) })) },
  };
}
