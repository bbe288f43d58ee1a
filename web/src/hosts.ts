// The hosts of a list of ranks: pictures separate them by lines.
import type { RankRow } from './report_types';

export interface HostRun {
  host: string;
  first: number; // place of its first rank in the list
  count: number;
}

// Returns the runs of neighbouring ranks of one host.
export function hostRuns(ranks: RankRow[]): HostRun[] {
  const runs: HostRun[] = [];
  ranks.forEach((r, k) => {
    const last = runs[runs.length - 1];
    if (last?.host === r.host) ++last.count;
    else runs.push({ host: r.host, first: k, count: 1 });
  });
  return runs;
}

// Places before which a line separates hosts. Without several ranks on a host, lines would only clutter.
export function hostBoundaries(ranks: RankRow[]): number[] {
  const runs = hostRuns(ranks);
  return runs.length > 1 && runs.some((r) => r.count > 1) ? runs.slice(1).map((r) => r.first) : [];
}
