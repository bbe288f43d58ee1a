// Waterfall from the ideal step to the observed one. The bars show differences only, so that their lengths can be
// compared. A bar above them shows the whole step to scale.
import type { Page } from './data';
import { h, onResize, svg } from './dom';
import { shortStraggler } from './findings';
import { percent, tickDistance, time } from './format';
import { legend } from './ranks';

interface Bar {
  name: string;
  kind: string;
  from: number; // nanoseconds beyond the ideal step
  to: number;
}

const MOST_CAUSES = 10;
const ROW = 30,
  NARROW_ROW = 44,
  BAR = 18,
  LEFT = 250,
  RIGHT = 84,
  AXIS = 34,
  TICK_WIDTH = 90,
  ZERO_LABEL = 140;

function barsOf(page: Page): Bar[] {
  const { slowdown: s, stragglers: found } = page.report;
  if (s.step_ns == null || s.ideal_step_ns == null) return [];
  const bars: Bar[] = [];
  let at = 0;
  const add = (name: string, length: number | null, kind: string) => {
    // Rounding leaves fractions of a nanosecond.
    if (!length || Math.abs(length) < 1) return;
    bars.push({ name, kind: length < 0 ? 'less' : kind, from: at, to: at + length });
    at += length;
  };
  found.slice(0, MOST_CAUSES).forEach((f, k) => {
    add(`${page.words.stragglers[k].cause}, ${shortStraggler(page, k)}`, f.lost_ns_per_step, 'cause');
  });
  const more = found.slice(MOST_CAUSES);
  add(
    `${more.length} smaller causes`,
    more.reduce((sum, f) => sum + f.lost_ns_per_step, 0),
    'cause',
  );
  add('noise', s.noise_ns_per_step, 'rest');
  add('too small to name', s.unlisted_ns_per_step, 'rest');
  add('kernels slowed beside collectives', s.unexplained_ns_per_step, 'rest');
  return bars;
}

const signed = (ns: number) => `${ns > 0 ? '+' : ns < 0 ? '−' : ''}${time(Math.abs(ns))}`;
const shortened = (name: string, letters: number) => (name.length > letters ? `${name.slice(0, letters - 1)}…` : name);

// The losses of all ranks, which are part of the ideal step.
const lostAlike = (page: Page) => page.report.shared_losses.reduce((sum, s) => sum + s.lost_ns_per_step, 0);

function draw(page: Page, bars: Bar[], width: number): SVGElement {
  const step = page.report.slowdown.step_ns!,
    ideal = page.report.slowdown.ideal_step_ns!;
  const narrow = width < 520;
  const left = narrow ? 8 : LEFT,
    row = narrow ? NARROW_ROW : ROW,
    top = narrow ? 20 : 4;
  const plot = width - left - RIGHT;
  const all: Bar[] = [...bars, { name: 'observed step', kind: 'sum', from: 0, to: step - ideal }];
  const ends = all.flatMap((b) => [b.from, b.to]);
  const low = Math.min(0, ...ends),
    high = Math.max(0, ...ends, 1);
  const x = (ns: number) => left + ((ns - low) / (high - low)) * plot;
  const first = row + 12;
  const bottom = first + all.length * row;
  const root = svg('svg', {
    width,
    height: bottom + AXIS,
    role: 'img',
    'aria-label': [
      `ideal step ${time(ideal)}`,
      ...bars.map((b) => `${b.name} ${signed(b.to - b.from)}`),
      `observed step ${time(step)}`,
    ].join(', '),
  });
  const label = (y: number, name: string) =>
    narrow
      ? svg('text', { x: left, y: y - 5 }, name)
      : svg('text', { x: left - 8, y: y + 13, 'text-anchor': 'end' }, shortened(name, 36), svg('title', {}, name));
  // The whole step, to scale.
  const alike = Math.min(lostAlike(page), ideal);
  const scale = (ns: number) => (ns / Math.max(step, ideal)) * plot;
  root.append(
    label(top, 'whole step, to scale'),
    svg('rect', { x: left, y: top, width: scale(Math.min(ideal, step)), height: BAR, class: 'ideal' }),
    svg('rect', {
      x: left + scale(Math.min(ideal, step) - alike),
      y: top,
      width: scale(alike),
      height: BAR,
      class: 'alike',
    }),
    svg('rect', {
      x: left + scale(Math.min(ideal, step)),
      y: top,
      width: Math.max(1, scale(Math.abs(step - ideal))),
      height: BAR,
      class: step >= ideal ? 'cause' : 'less',
    }),
    svg('text', { x: left + plot + 6, y: top + 14 }, time(step)),
  );
  const distance = tickDistance(high - low, plot / TICK_WIDTH);
  for (let t = Math.ceil(low / distance) * distance; t <= high; t += distance) {
    const zero = Math.abs(t) < distance / 2;
    root.append(svg('line', { x1: x(t), x2: x(t), y1: first, y2: bottom + 4, class: zero ? 'zero' : 'gridline' }));
    // The label of zero is longer than the others.
    if (!zero && t > 0 && x(t) - x(0) < ZERO_LABEL) continue;
    root.append(
      svg(
        'text',
        { x: x(t), y: bottom + 18, class: 'soft', 'text-anchor': zero && x(t) < left + 40 ? 'start' : 'middle' },
        zero ? `ideal step ${time(ideal)}` : signed(t),
      ),
    );
  }
  all.forEach((b, k) => {
    const y = first + k * row + top;
    const from = x(Math.min(b.from, b.to)),
      to = x(Math.max(b.from, b.to));
    const text = b.kind === 'sum' ? time(step) : signed(b.to - b.from);
    root.append(
      label(y, b.name),
      svg('rect', { x: from, y, width: Math.max(1.5, to - from), height: BAR, class: b.kind, rx: 2 }),
      svg('text', { x: to + 6, y: y + 14 }, text),
    );
    if (k + 1 < all.length) root.append(svg('line', { x1: x(b.to), x2: x(b.to), y1: y + BAR, y2: y + row, class: 'link' }));
  });
  return root;
}

export function waterfall(page: Page): HTMLElement {
  const bars = barsOf(page);
  const { lost_ns_per_step: lost, step_ns: step, ideal_step_ns: ideal } = page.report.slowdown;
  if (step == null || ideal == null) return h('p', {}, 'Nothing could be replayed, so nothing can be split.');
  const holder = h('div', { class: 'picture' });
  onResize(holder, (width) => holder.replaceChildren(draw(page, bars, Math.max(280, width))));
  const alike = lostAlike(page);
  const shares: [string, string][] = [
    ['ideal', 'ideal step'],
    ['alike', `lost by all ranks alike, ${time(alike)}, as part of it`],
    ['cause', `beyond it, ${time(lost)}, ${percent((lost ?? 0) / step)} of the step`],
  ];
  return h(
    'figure',
    {},
    legend(shares.filter(([kind]) => kind !== 'alike' || alike > 0)),
    holder,
    h('figcaption', { class: 'count' }, 'Below the whole step, bars show differences to the ideal step only.'),
  );
}
