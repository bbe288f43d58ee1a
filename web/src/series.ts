// Series over time: the step's length, and the utilisation of the three ranks' GPUs.
import uPlot from 'uplot';
import type { Page, TimelineRank } from './data';
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
  const rankPlot = (
    title: string,
    label: string,
    valuesOf: (r: TimelineRank) => Float32Array,
    shape: { range?: [number, number]; text: (n: number) => string },
  ) => {
    const shown = timeline.ranks.filter((r) => valuesOf(r).length > 1);
    if (shown.length === 0) return;
    // All series share one axis: the bins of the first rank. The other ranks' values are looked up at these times.
    const base = shown[0];
    const times = Array.from(valuesOf(base), (_, k) => (k + 0.5) * base.busy_width_ns);
    const at = (r: TimelineRank, k: number) => {
      const bin = Math.floor((times[k] + base.busy_start_ns - r.busy_start_ns) / r.busy_width_ns);
      const values = valuesOf(r);
      return bin >= 0 && bin < values.length ? values[bin] : null;
    };
    const data: uPlot.AlignedData = [times, ...shown.map((r) => times.map((_, k) => at(r, k)))];
    parts.push(
      h(
        'div',
        {},
        h('h3', {}, title),
        plot(
          label,
          (width) => ({
            width,
            height: 230,
            scales: { x: { time: false }, y: shape.range ? { range: shape.range } : { range: (_, __, high) => [0, 1.1 * Math.max(1, high)] } },
            axes: [axis(time, 34), axis(shape.text, 52)],
            series: [
              { label: 'at', value: (_, v) => time(v) },
              ...shown.map((r, k) => ({
                label: `rank ${r.rank}`,
                stroke: colour(COLOURS[k]),
                dash: DASHES[k],
                width: 1.5,
                points: { show: false },
                value: (_: uPlot, v: number) => (v == null ? '–' : shape.text(v)),
              })),
            ],
          }),
          data,
        ),
      ),
    );
  };
  rankPlot('GPU busy', 'how busy the GPUs of the ranks in the timeline were', (r) => r.busy.map((v) => Math.min(1, v)), {
    range: [0, 1],
    text: (n) => percent(n, 0),
  });
  rankPlot('Work launched and not started', 'how much work waited for the GPUs of the ranks in the timeline', (r) => r.queued, {
    text: (n) => (n >= 100 || Number.isInteger(n) ? n.toFixed(0) : n.toFixed(1)),
  });
  return section(
    'series',
    'Over time',
    'Steps as observed beside the ideal one, on an axis that does not begin at 0; the part of the time in which a kernel ran, communication included; and the work that waits in the GPU’s queues. With an empty queue, the GPU waits for the host.',
    parts.length > 0 ? h('div', { class: 'pair' }, ...parts) : h('p', {}, 'One step only.'),
  );
}
