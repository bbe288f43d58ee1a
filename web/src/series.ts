// Series over time: the step's length, and the utilisation of the three ranks' GPUs.
import uPlot from 'uplot';
import type { Page } from './data';
import { colour, h, onResize, section } from './dom';
import { percent, time } from './format';

const DASHES = [[], [6, 3], [2, 3]];
const COLOURS = ['wait', 'compute', 'memory'];

// uPlot keeps the colours that it gets, so that a change of theme makes a new plot.
export function plot(label: string, make: (width: number) => uPlot.Options, data: uPlot.AlignedData): HTMLElement {
  const holder = h('div', { role: 'img', 'aria-label': label });
  let made: uPlot | null = null;
  const draw = (width: number) => {
    made?.destroy();
    made = new uPlot(make(width), data, holder);
  };
  onResize(holder, draw);
  addEventListener('themechange', () => {
    if (made) draw(made.width);
  });
  return holder;
}

export const axis = (values: (n: number) => string, size: number): uPlot.Axis => ({
  stroke: colour('soft'),
  grid: { stroke: colour('line'), width: 1 },
  ticks: { stroke: colour('line') },
  size,
  values: (_, splits) => splits.map((s) => (s == null ? '' : values(s))),
});

export function seriesPart(page: Page): HTMLElement {
  const { steps, timeline, report } = page;
  const parts: HTMLElement[] = [];
  if (steps.numbers.length > 1) {
    const ideal = report.slowdown.ideal_step_ns;
    const data: uPlot.AlignedData = [steps.numbers, Array.from(steps.duration), steps.numbers.map(() => ideal)];
    parts.push(
      h(
        'div',
        {},
        h('h3', {}, 'Length of each step'),
        plot(
          `length of ${steps.numbers.length} steps`,
          (width) => ({
            width,
            height: 230,
            scales: {
              x: { time: false },
              y: { range: (_, low, high) => [Math.max(0, low - 0.3 * (high - low) - 1), high + 0.1 * (high - low) + 1] },
            },
            axes: [axis((n) => (Number.isInteger(n) ? String(n) : ''), 34), axis(time, 66)],
            series: [
              { label: 'step' },
              { label: 'observed', stroke: colour('wait'), width: 2, points: { show: true, size: 5 }, value: (_, v) => time(v) },
              {
                label: 'ideal',
                stroke: colour('compute'),
                dash: [6, 4],
                width: 2,
                points: { show: false },
                value: (_, v) => time(v),
              },
            ],
          }),
          data,
        ),
      ),
    );
  }
  const busy = timeline.ranks.filter((r) => r.busy.length > 1);
  if (busy.length > 0) {
    // All series share one axis: the bins of the first rank. The other ranks' values are looked up at these
    // times.
    const base = busy[0];
    const times = Array.from(base.busy, (_, k) => base.busy_start_ns + (k + 0.5) * base.busy_width_ns - base.busy_start_ns);
    const at = (r: typeof base, k: number) => {
      const bin = Math.floor((times[k] + base.busy_start_ns - r.busy_start_ns) / r.busy_width_ns);
      return bin >= 0 && bin < r.busy.length ? Math.min(1, r.busy[bin]) : null;
    };
    const data: uPlot.AlignedData = [times, ...busy.map((r) => times.map((_, k) => at(r, k)))];
    parts.push(
      h(
        'div',
        {},
        h('h3', {}, 'GPU busy'),
        plot(
          'how busy the GPUs of the ranks in the timeline were',
          (width) => ({
            width,
            height: 230,
            scales: { x: { time: false }, y: { range: [0, 1] } },
            axes: [axis(time, 34), axis((n) => percent(n, 0), 52)],
            series: [
              { label: 'at', value: (_, v) => time(v) },
              ...busy.map((r, k) => ({
                label: `rank ${r.rank}`,
                stroke: colour(COLOURS[k]),
                dash: DASHES[k],
                width: 1.5,
                points: { show: false },
                value: (_: uPlot, v: number) => percent(v),
              })),
            ],
          }),
          data,
        ),
      ),
    );
  }
  return section(
    'series',
    'Over time',
    'Steps as observed beside the ideal one, on an axis that does not begin at 0; and the part of the time in which a kernel ran, communication included.',
    parts.length > 0 ? h('div', { class: 'pair' }, ...parts) : h('p', {}, 'One step only.'),
  );
}
