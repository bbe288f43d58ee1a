// The quality of the data: losses, missing ranks, unmatched communication, clocks. What weakens the verdict is
// also on the first screen.
import type { Page } from './data';
import { h, section } from './dom';
import { count, percent, ranks as rankList, time } from './format';

// A verdict rests on waiting, and waiting on matched communication.
const MATCHED_ENOUGH = 0.99;
// Clocks that differ by more than this part of the step make waiting between hosts uncertain.
const CLOCK_PART_OF_STEP = 0.25;
const MOST_REASONS = 3;

const plural = (n: number, one: string, many: string) => `${count(n)} ${n === 1 ? one : many}`;

// The ranks that were not recorded in whole, by reason.
function incomplete(page: Page): string[] {
  const by = new Map<string, number[]>();
  for (const r of page.report.capture.incomplete) by.set(r.reason, [...(by.get(r.reason) ?? []), r.rank]);
  const lines = [...by].map(([reason, ranks]) => `rank ${rankList(ranks)} is not complete: ${reason}`);
  return lines.length > MOST_REASONS
    ? [
        ...lines.slice(0, MOST_REASONS),
        `${plural(lines.length - MOST_REASONS, 'further reason', 'further reasons')} for other ranks`,
      ]
    : lines;
}

const lostRecords = (page: Page) => page.report.capture.losses.reduce((sum, l) => sum + l.records, 0);
const matchedEnough = (page: Page) => (page.report.capture.matching.matched_fraction ?? 1) >= MATCHED_ENOUGH;

function losses(page: Page): string {
  const { losses } = page.report.capture;
  const lost = lostRecords(page);
  if (lost === 0) return 'no record was lost';
  const ranks = new Set(losses.filter((l) => l.records > 0).map((l) => l.rank)).size;
  return `${plural(lost, 'record was', 'records were')} lost on ${plural(ranks, 'rank', 'ranks')} (table “losses”)`;
}

function graphs(page: Page): string[] {
  const rows = page.report.capture.graphs_not_visible;
  if (rows.length === 0) return [];
  const launches = rows.reduce((sum, g) => sum + g.launches, 0);
  return [
    `${plural(launches, 'graph launch', 'graph launches')} of rank ${rankList(rows.map((g) => g.rank))} left no record: idle time there may be work`,
  ];
}

function clocks(page: Page): { text: string; weak: boolean } {
  const c = page.report.capture;
  const bound = c.clock.bound_ns,
    step = page.report.slowdown.step_ns;
  if (c.hosts <= 1 || bound === 0) return { text: 'all ranks have one clock', weak: false };
  if (bound == null) return { text: 'how far the hosts’ clocks differ is not known', weak: true };
  const part = step ? bound / step : 0;
  const weak = part > CLOCK_PART_OF_STEP;
  return {
    text: `the hosts’ clocks agree within ${time(bound)}${weak ? `, which is ${percent(part, 0)} of a step` : ''}: differences between hosts below that are not certain`,
    weak,
  };
}

// The points that weaken the verdict, most serious first.
export function weaknesses(page: Page): string[] {
  const c = page.report.capture;
  const weak: string[] = [];
  if (c.missing_ranks.length > 0)
    weak.push(`${count(c.missing_ranks.length)} of ${count(c.world_size)} ranks were not recorded: ${rankList(c.missing_ranks)}`);
  weak.push(...incomplete(page), ...graphs(page));
  for (const n of page.report.not_judged) weak.push(`not judged: ${n.what}, because ${n.why}. To judge: ${n.what_would_tell}`);
  if (!matchedEnough(page))
    weak.push(`only ${percent(c.matching.matched_fraction)} of the communication was matched across ranks`);
  // Lost records weaken a verdict if they took partners from collectives.
  if (lostRecords(page) > 0 && (c.matching.partial > 0 || !matchedEnough(page))) weak.push(losses(page));
  const clock = clocks(page);
  if (clock.weak) weak.push(clock.text);
  return weak;
}

export function qualityPart(page: Page): HTMLElement {
  const c = page.report.capture;
  const weak = weaknesses(page);
  const m = c.matching;
  const all = [
    ...weak,
    losses(page),
    m.matched_fraction != null && `${percent(m.matched_fraction)} of the communication was matched across ranks`,
    m.partial > 0 &&
      `${plural(m.partial, 'collective lacks', 'collectives lack')} ranks or records: their waits are at least what is shown`,
    clocks(page).text,
  ].filter((line): line is string => Boolean(line));
  const lost = lostRecords(page);
  const summary =
    weak.length > 0
      ? `${plural(weak.length, 'point weakens', 'points weaken')} the verdict`
      : `nothing weakens the verdict; ${lost > 0 ? losses(page) : 'no record was lost'}`;
  const details = h(
    'details',
    {},
    h('summary', {}, summary),
    h('ul', {}, ...[...new Set(all)].map((line) => h('li', {}, line)), ...c.notes.map((n) => h('li', {}, n))),
  );
  details.open = weak.length > 0;
  const part = section('quality', 'Quality of the data', '', details);
  part.classList.add(weak.length > 0 ? 'doubtful' : 'fine');
  return part;
}
