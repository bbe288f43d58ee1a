// Flame graphs: the time of every stack of calls, outermost frame on top. One rank, or the mean of all; a rank's colours
// may show its difference from the mean.
import type { FlameChart, Page } from './data';
import { chosen, colour, Drawing, h, section } from './dom';
import { culprits } from './findings';
import { percent, shortName, time } from './format';

const ROW = 20,
  LEAST_ROWS = 2,
  LEAST_WIDTH = 0.4, // pixels; narrower frames are not drawn
  LEAST_NAME = 34, // pixels that a name needs
  MEAN = -1; // in place of a rank

const KINDS: Record<FlameChart['kind'], string> = {
  device: 'time on the GPU',
  host: 'time of host threads',
  python: 'time of Python functions',
};

interface Frame {
  place: number;
  depth: number;
  from: number; // part of the width, before zooming
  to: number;
}

// The frames of a chart with their places for one column of times. Frames lie in the order of their names, so that ranks
// compare.
class Layout {
  readonly frames: Frame[] = [];
  readonly depth: number;
  readonly whole: number;
  readonly byPlace = new Map<number, Frame>();
  readonly inside: Map<number, number[]>;
  constructor(
    readonly chart: FlameChart,
    readonly times: Float32Array,
  ) {
    this.inside = new Map();
    chart.parent.forEach((parent, place) => {
      if (!(times[place] > 0)) return;
      const list = this.inside.get(parent) ?? [];
      list.push(place);
      this.inside.set(parent, list);
    });
    for (const list of this.inside.values()) list.sort((a, b) => (this.name(a) < this.name(b) ? -1 : 1));
    this.whole = Math.max(
      1,
      (this.inside.get(-1) ?? []).reduce((sum, place) => sum + times[place], 0),
    );
    let depth = 0;
    // A stack may be deeper than the recursion that a browser allows.
    const open: Frame[] = [];
    const add = (parent: number, from: number, level: number) => {
      for (const place of this.inside.get(parent) ?? []) {
        const to = from + this.times[place] / this.whole;
        open.push({ place, depth: level, from, to });
        from = to;
      }
    };
    add(-1, 0, 0);
    for (let frame = open.pop(); frame; frame = open.pop()) {
      this.frames.push(frame);
      this.byPlace.set(frame.place, frame);
      depth = Math.max(depth, frame.depth + 1);
      add(frame.place, frame.from, frame.depth + 1);
    }
    this.depth = depth;
  }
  name(place: number): string {
    return this.chart.names[this.chart.name_at[place]];
  }
  parentOf(place: number): number {
    return this.chart.parent[place];
  }
}

const kindColour = (name: string) =>
  /^nccl/i.test(name) || name.includes('ncclDev') ? 'transfer' : /^mem(cpy|set)/i.test(name) ? 'memory' : 'compute';

export function flamePart(page: Page): HTMLElement {
  const charts = page.flames;
  const single = page.report.ranks.length < 2;
  let chart = charts[0];
  let rank = culprits(page)[0] ?? MEAN;
  if (!chart.ranks.some((r) => r.rank === rank)) rank = MEAN;
  let compare = rank !== MEAN;
  let wanted = '';
  let zoomed = -1; // place of the frame that has the whole width
  let marked = -1;
  let layout = new Layout(chart, timesOf(chart, rank));

  function timesOf(of: FlameChart, which: number): Float32Array {
    return of.ranks.find((r) => r.rank === which)?.time ?? of.mean;
  }
  const matches = (place: number) => wanted !== '' && layout.name(place).toLowerCase().includes(wanted);
  const range = () => {
    const frame = layout.byPlace.get(zoomed);
    return frame ? { from: frame.from, to: frame.to } : { from: 0, to: 1 };
  };
  const isAround = (outer: number, place: number) => {
    for (let p = place; p >= 0; p = layout.parentOf(p)) if (p === outer) return true;
    return false;
  };
  const difference = (place: number) => layout.times[place] - chart.mean[place];
  const largest = () => {
    let most = 1;
    for (const { place } of layout.frames) most = Math.max(most, Math.abs(difference(place)));
    return most;
  };

  const readout = h('p', { class: 'readout', role: 'status' });
  const drawing = new Drawing(
    'Flame graph. Arrow keys move between frames, Enter makes a frame as wide as the picture, Escape shows all.',
    () => ROW * Math.max(LEAST_ROWS, layout.depth) + 1,
    (g, d) => {
      const { from, to } = range();
      const most = compare ? largest() : 1;
      const x = (part: number) => ((part - from) / (to - from)) * d.width;
      g.textBaseline = 'middle';
      for (const frame of layout.frames) {
        const around = zoomed >= 0 && frame.place !== zoomed && isAround(frame.place, zoomed);
        if (!around && (frame.to <= from || frame.from >= to)) continue;
        const left = around ? 0 : Math.max(0, x(frame.from)),
          right = around ? d.width : Math.min(d.width, x(frame.to));
        if (right - left < LEAST_WIDTH) continue;
        const y = frame.depth * ROW;
        const name = layout.name(frame.place);
        if (compare) {
          const part = difference(frame.place) / most;
          g.fillStyle = colour('heat-zero');
          g.fillRect(left, y, right - left, ROW - 1);
          g.globalAlpha = Math.min(1, 0.08 + 0.92 * Math.abs(part));
          g.fillStyle = colour(part > 0 ? 'heat-more' : 'heat-less');
        } else {
          g.globalAlpha = 0.72 + 0.07 * (frame.place % 5);
          g.fillStyle = colour(kindColour(name));
        }
        if (wanted !== '' && !matches(frame.place)) g.globalAlpha *= 0.25;
        if (around) g.globalAlpha *= 0.5;
        g.fillRect(left, y, Math.max(LEAST_WIDTH, right - left - 0.5), ROW - 1);
        g.globalAlpha = 1;
        if (frame.place === marked) {
          g.strokeStyle = colour('ink');
          g.lineWidth = 2;
          g.strokeRect(left + 1, y + 1, Math.max(1, right - left - 2), ROW - 3);
        }
        if (right - left < LEAST_NAME) continue;
        const bright = compare ? Math.abs(difference(frame.place)) / most < 0.5 : false;
        g.fillStyle = colour(bright || around ? 'ink' : compare || kindColour(name) === 'compute' ? 'on-compute' : 'on-bright');
        g.save();
        g.beginPath();
        g.rect(left, y, right - left, ROW);
        g.clip();
        g.fillText(shortName(name), left + 4, y + ROW / 2);
        g.restore();
      }
    },
  );

  function say(): void {
    if (wanted !== '') {
      let sum = 0,
        frames = 0;
      for (const { place } of layout.frames) {
        if (!matches(place)) continue;
        ++frames;
        // Frames inside another match are in its time already.
        if (!isInsideMatch(place)) sum += layout.times[place];
      }
      readout.textContent = `${frames} frames match “${wanted}”: ${time(sum)}, ${percent(sum / layout.whole)} of the picture`;
      return;
    }
    if (marked < 0) {
      const of = single ? '' : rank === MEAN ? `, mean of ${chart.counted_ranks} ranks` : ` on rank ${rank}`;
      const short = chart.left_out > 0 ? `; ${chart.left_out} frames are too short to be shown` : '';
      readout.textContent = `${time(layout.whole)} in all${of}${short}`;
      return;
    }
    const t = layout.times[marked];
    const words = [`${layout.name(marked)}: ${time(t)}, ${percent(t / layout.whole)}`];
    if (rank !== MEAN) {
      const d = difference(marked);
      words.push(
        d === 0
          ? 'the same as the mean of all ranks'
          : `${time(Math.abs(d))} ${d > 0 ? 'more' : 'less'} than the mean of ${chart.counted_ranks} ranks`,
      );
    }
    readout.textContent = words.join('; ');
  }
  function isInsideMatch(place: number): boolean {
    for (let p = layout.parentOf(place); p >= 0; p = layout.parentOf(p)) if (matches(p)) return true;
    return false;
  }
  function update(): void {
    layout = new Layout(chart, timesOf(chart, rank));
    if (!layout.byPlace.has(zoomed)) zoomed = -1;
    if (!layout.byPlace.has(marked)) marked = -1;
    comparison.disabled = rank === MEAN;
    comparison.checked = compare = compare && rank !== MEAN;
    drawing.redraw();
    say();
  }
  function mark(place: number): void {
    marked = place;
    drawing.redraw();
    say();
  }
  function zoom(place: number): void {
    zoomed = place;
    drawing.redraw();
  }
  const frameAt = (e: MouseEvent) => {
    const box = drawing.canvas.getBoundingClientRect();
    const { from, to } = range();
    const part = from + ((e.clientX - box.left) / box.width) * (to - from);
    const depth = Math.floor((e.clientY - box.top) / ROW);
    return layout.frames.find(
      (f) => f.depth === depth && ((f.from <= part && part < f.to) || (zoomed >= 0 && f.place !== zoomed && isAround(f.place, zoomed))),
    );
  };
  drawing.canvas.addEventListener('pointermove', (e) => {
    const frame = frameAt(e);
    if ((frame?.place ?? -1) !== marked) mark(frame?.place ?? -1);
  });
  drawing.canvas.addEventListener('pointerleave', () => mark(-1));
  drawing.canvas.addEventListener('click', (e) => zoom(frameAt(e)?.place ?? -1));
  drawing.canvas.addEventListener('keydown', (e) => {
    const siblings = layout.inside.get(marked < 0 ? -1 : layout.parentOf(marked)) ?? [];
    const next = (step: number) => siblings[Math.max(0, Math.min(siblings.length - 1, siblings.indexOf(marked) + step))] ?? -1;
    const keys: Record<string, () => void> = {
      ArrowRight: () => mark(next(1)),
      ArrowLeft: () => mark(next(-1)),
      ArrowDown: () => mark((layout.inside.get(marked) ?? [])[0] ?? marked),
      ArrowUp: () => mark(marked >= 0 && layout.parentOf(marked) >= 0 ? layout.parentOf(marked) : marked),
      Enter: () => zoom(marked),
      Escape: () => zoom(-1),
    };
    if (!keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
  });

  const kind = h('select', {}, ...charts.map((c) => h('option', { value: c.kind }, KINDS[c.kind])));
  kind.addEventListener('change', () => {
    chart = charts.find((c) => c.kind === kind.value)!;
    zoomed = marked = -1;
    update();
  });
  const who = h(
    'select',
    {},
    h('option', { value: String(MEAN) }, 'mean of all ranks'),
    ...chart.ranks.map((r) => h('option', { value: String(r.rank) }, `rank ${r.rank}`)),
  );
  who.value = String(rank);
  who.addEventListener('change', () => {
    rank = Number(who.value);
    update();
  });
  const comparison = h('input', { type: 'checkbox' });
  comparison.addEventListener('change', () => {
    compare = comparison.checked;
    drawing.redraw();
  });
  const search = h('input', { type: 'search', placeholder: 'name of a frame' });
  search.addEventListener('input', () => {
    wanted = search.value.trim().toLowerCase();
    drawing.redraw();
    say();
  });
  // The rank that is chosen in another picture is shown here as well.
  addEventListener('rankchosen', () => {
    const now = chosen();
    if (now == null || now === rank || !chart.ranks.some((r) => r.rank === now)) return;
    rank = now;
    who.value = String(rank);
    update();
  });
  const all = h('button', { type: 'button' }, 'Show all');
  all.addEventListener('click', () => zoom(-1));
  comparison.checked = compare;
  comparison.disabled = rank === MEAN;
  say();
  return section(
    'flame',
    'Flame graph',
    'Each box is a call with the time of everything inside it; its callers are above it. All steps are one frame. Compared with the mean, orange is more time and blue is less. The command lockstep flame prints the same stacks.',
    h(
      'div',
      { class: 'tools' },
      h('label', {}, 'Show', kind),
      !single && h('label', {}, 'of', who),
      !single && h('label', {}, comparison, 'compare with the mean'),
      h('label', {}, 'Search', search),
      all,
      h('span', { class: 'count keys' }, 'a click widens a frame; arrow keys, Enter and Escape do the same'),
    ),
    h('div', { class: 'picture' }, drawing.canvas),
    readout,
  );
}
