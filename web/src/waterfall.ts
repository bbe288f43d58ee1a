// Waterfall from the ideal step to the observed one: the time that each cause adds.
import type { Page } from './data';
import { choose, h, section, svg } from './dom';
import { ranks, time } from './format';
import { stragglers } from './page_parts';

interface Bar {
  name: string;
  kind: string;
  from: number;
  to: number;
  rank?: number;
}

const MOST_CAUSES = 10;

function barsOf(page: Page): Bar[] {
  const { slowdown: s, stragglers: found } = page.report;
  if (s.step_ns == null || s.ideal_step_ns == null) return [];
  const bars: Bar[] = [{ name: 'ideal step', kind: 'ideal', from: 0, to: s.ideal_step_ns }];
  let at = s.ideal_step_ns;
  const add = (name: string, length: number | null, kind: string, rank?: number) => {
    if (!length) return;
    bars.push({ name, kind: length < 0 ? 'less' : kind, from: at, to: at + length, rank });
    at += length;
  };
  for (const f of found.slice(0, MOST_CAUSES))
    add(`${f.cause}, ${f.kind} ${ranks(f.ranks, 3)}`, f.lost_ns_per_step, 'cause', f.ranks[0]);
  const more = found.slice(MOST_CAUSES);
  add(
    `${more.length} smaller causes`,
    more.reduce((sum, f) => sum + f.lost_ns_per_step, 0),
    'cause',
  );
  add('noise', s.noise_ns_per_step, 'rest');
  add('too small to name', s.unlisted_ns_per_step, 'rest');
  add('unexplained, in waits', s.unexplained_ns_per_step, 'rest');
  bars.push({ name: 'observed step', kind: 'ideal', from: 0, to: s.step_ns });
  return bars;
}

export function waterfall(page: Page): HTMLElement {
  const bars = barsOf(page);
  const holder = h('div', { class: 'picture' });
  const draw = () => {
    const width = Math.max(280, holder.clientWidth);
    const narrow = width < 520;
    const left = narrow ? 8 : 210,
      row = narrow ? 44 : 30,
      right = 84,
      bar = 18;
    // The ideal step is much longer than the causes, so that the axis starts shortly before them.
    const ends = bars.slice(1, -1).flatMap((b) => [b.from, b.to]);
    const lowest = Math.min(bars[0].to, ...ends),
      highest = Math.max(bars[bars.length - 1].to, bars[0].to, ...ends);
    const cut = Math.max(0, lowest - 0.35 * Math.max(highest - lowest, 0.002 * highest));
    const x = (ns: number) => left + ((Math.max(cut, ns) - cut) / Math.max(1, highest - cut)) * (width - left - right);
    const root = svg('svg', {
      width,
      height: bars.length * row + 22,
      role: 'img',
      'aria-label': bars.map((b) => `${b.name} ${time(b.from === 0 ? b.to : b.to - b.from)}`).join(', '),
    });
    bars.forEach((b, k) => {
      const y = k * row + (narrow ? 20 : 4);
      const length = b.from === 0 ? time(b.to) : `${b.to >= b.from ? '+' : ''}${time(b.to - b.from)}`;
      const from = x(Math.min(b.from, b.to)),
        to = x(Math.max(b.from, b.to));
      root.append(
        narrow
          ? svg('text', { x: left, y: y - 5 }, b.name)
          : svg('text', { x: left - 8, y: y + 13, 'text-anchor': 'end' }, b.name),
        svg('rect', { x: from, y, width: Math.max(1.5, to - from), height: bar, class: b.kind, rx: 2 }),
        svg('text', { x: to + 6, y: y + 14 }, length),
      );
      if (k + 1 < bars.length)
        root.append(svg('line', { x1: x(b.to), x2: x(b.to), y1: y + bar, y2: y + row, class: 'gridline' }));
    });
    if (cut > 0)
      root.append(svg('text', { x: left, y: bars.length * row + 16, class: 'soft' }, `the axis begins at ${time(cut)}`));
    holder.replaceChildren(root);
  };
  if (bars.length > 0) new ResizeObserver(draw).observe(holder);
  const culprits = page.report.stragglers.flatMap((s) => s.ranks).slice(0, 6);
  const buttons = culprits.map((rank) => {
    const button = h('button', { type: 'button' }, `mark rank ${rank}`);
    button.addEventListener('click', () => choose(rank));
    return button;
  });
  return section(
    'causes',
    'Causes',
    'What lengthens the step, from the step with every rank typical to the one observed. The parts add up.',
    bars.length > 0 ? holder : h('p', {}, 'Nothing could be replayed, so nothing can be split.'),
    buttons.length > 0 && h('div', { class: 'tools' }, ...buttons),
    stragglers(page),
    page.report.recommendations.length > 0 && h('h3', {}, 'To do'),
    page.report.recommendations.length > 0 && h('ul', {}, ...page.report.recommendations.map((r) => h('li', {}, r))),
    page.report.not_the_cause.length > 0 && h('h3', {}, 'Not the cause'),
    page.report.not_the_cause.length > 0 && h('ul', {}, ...page.report.not_the_cause.map((r) => h('li', {}, r))),
  );
}
