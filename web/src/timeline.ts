// Timeline of the culprit, a rank that waited for it and a healthy rank, over one or two steps on the job's
// clock.
import type { Lane, Page, TimelineRank } from './data';
import { colour, Drawing, FONT, h, section } from './dom';
import { culprits } from './findings';
import { shortName, tickDistance, time } from './format';
import { legend } from './ranks';

const LEFT = 118,
  AXIS = 34,
  LANE = 22,
  GAP = 20,
  PLOT_RIGHT = 6,
  NARROW = 520,
  LABEL = 15; // height of a lane's label on narrow screens, above the lane
// A box shows a cut name only if it has room for as many pixels.
const LEAST_CUT_NAME = 56;
const LANE_COLOURS: Record<string, string> = { compute: 'compute', communication: 'transfer', copies: 'memory' };
const PARTS: Record<string, string> = {
  culprit: 'named in the verdict',
  victim: 'waits',
  peer: 'typical rank',
  'waited for most': 'waited for most',
};

// Returns a name, or the part of it that fits into as many pixels, or nothing if it would be too short to be
// recognised.
function fitting(g: CanvasRenderingContext2D, name: string, width: number): string {
  if (width < 14 || name === '') return '';
  const whole = g.measureText(name).width;
  if (whole <= width) return name;
  if (width < LEAST_CUT_NAME) return '';
  return `${name.slice(0, Math.max(1, Math.floor((name.length * width) / whole) - 1))}…`;
}

const TICK_WIDTH = 80;

interface Spot {
  rank: TimelineRank;
  lane: Lane;
  box: number;
}

// Returns the last box that starts at or before a time.
function boxAt(lane: Lane, ns: number): number {
  let low = 0,
    high = lane.start.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.start[middle] <= ns) low = middle + 1;
    else high = middle;
  }
  // Kernels of several streams overlap, so that an earlier box may still contain the time.
  for (let k = low - 1; k >= 0 && k > low - 20; --k) if (lane.start[k] + lane.length[k] >= ns) return k;
  return -1;
}

export function timelinePart(page: Page): HTMLElement {
  const { timeline } = page;
  const about =
    'What the GPUs of up to three ranks did around the step that cost most. The pale part of communication is waiting. Names of kernels are shortened; the line below has the whole name.';
  if (timeline.ranks.length === 0) return section('timeline', 'Timeline', about, h('p', {}, 'Nothing was recorded.'));
  let from = 0,
    to = timeline.length_ns;
  let cursor: number | null = null;
  let row = 0;
  let spot: Spot | null = null;
  const rows = timeline.ranks.flatMap((rank) => rank.lanes.filter((l) => l.start.length > 0).map((lane) => ({ rank, lane })));
  let tops: number[] = [];
  let height = 0;
  const narrow = (width: number) => width < NARROW;
  const arrange = (width: number) => {
    tops = [];
    let y = AXIS;
    rows.forEach((r, k) => {
      if (k === 0 || rows[k - 1].rank !== r.rank) y += GAP;
      if (narrow(width)) y += LABEL;
      tops.push(y);
      y += LANE + 2;
    });
    height = y + 6;
    return height;
  };
  // A loss of all ranks has no culprit.
  const guilty = culprits(page);
  const titleOf = (r: TimelineRank) =>
    r.part === 'culprit' && !guilty.includes(r.rank) ? `rank ${r.rank}` : `rank ${r.rank}: ${PARTS[r.part] ?? r.part}`;
  const names = timeline.names.map(shortName);
  const readout = h('p', { class: 'readout', role: 'status', 'aria-live': 'polite' });
  const left = (d: Drawing) => (narrow(d.width) ? 8 : LEFT);
  const plot = (d: Drawing) => d.width - left(d) - PLOT_RIGHT;
  const x = (d: Drawing, ns: number) => left(d) + ((ns - from) / (to - from)) * plot(d);
  const drawing = new Drawing(
    'Timeline. Left and right arrows move, plus and minus zoom, up and down change the lane, N and P go from box to box.',
    arrange,
    (g, d) => {
      const ink = colour('ink'),
        soft = colour('soft'),
        line = colour('line');
      g.textBaseline = 'middle';
      const every = tickDistance(to - from, plot(d) / TICK_WIDTH);
      g.textAlign = 'center';
      for (let t = Math.ceil(from / every) * every; t <= to; t += every) {
        g.fillStyle = line;
        g.fillRect(x(d, t), AXIS - 6, 1, height - AXIS);
        g.fillStyle = soft;
        if (x(d, t) > left(d) + 18 && x(d, t) < d.width - 24) g.fillText(time(t), x(d, t), AXIS - 13);
      }
      for (const s of timeline.steps) {
        const at = x(d, s.start_ns);
        if (at < left(d) - 1 || at > d.width - 20) continue;
        g.fillStyle = ink;
        g.fillRect(at, 2, 1.5, height - 4);
        g.textAlign = 'left';
        g.fillText(`step ${s.step}`, at + 4, 8);
      }
      rows.forEach(({ rank, lane }, k) => {
        const top = tops[k];
        if (k === 0 || rows[k - 1].rank !== rank) {
          g.fillStyle = ink;
          g.textAlign = 'left';
          g.font = `bold ${FONT}`;
          const title = titleOf(rank),
            middle = top - 10 - (narrow(d.width) ? LABEL : 0);
          // Lines of steps and ticks must not cross the title.
          g.fillStyle = colour('card');
          g.fillRect(4, middle - 8, g.measureText(title).width + 8, 16);
          g.fillStyle = ink;
          g.fillText(title, 8, middle);
          g.font = FONT;
        }
        g.fillStyle = soft;
        g.textAlign = narrow(d.width) ? 'left' : 'right';
        if (narrow(d.width)) g.fillText(lane.name, 8, top - LABEL / 2);
        else g.fillText(lane.name, LEFT - 8, top + LANE / 2);
        g.fillStyle = colour('heat-zero');
        g.fillRect(left(d), top, plot(d), LANE);
        g.save();
        g.beginPath();
        g.rect(left(d), top, plot(d), LANE);
        g.clip();
        const fill = colour(LANE_COLOURS[lane.name] ?? 'idle'),
          wait = colour('wait');
        for (let b = 0; b < lane.start.length; ++b) {
          const start = lane.start[b],
            end = start + lane.length[b];
          if (end < from || start > to) continue;
          const x0 = x(d, start),
            x1 = Math.max(x0 + 0.6, x(d, end) - (x(d, end) - x0 > 3 ? 0.7 : 0));
          g.fillStyle = fill;
          g.fillRect(x0, top, x1 - x0, LANE);
          const waited = lane.wait[b];
          if (waited > 0) {
            const w = Math.min(x1, x(d, start + waited));
            g.fillStyle = colour('heat-zero');
            g.fillRect(x0, top + 1, w - x0, LANE - 2);
            g.fillStyle = wait;
            g.globalAlpha = 0.45;
            g.fillRect(x0, top, w - x0, LANE);
            g.globalAlpha = 1;
          }
          // Several records in one box have several names. The next box may cover the end of this one.
          const seen = Math.max(x0, left(d)),
            covered = Math.min(x1, d.width - PLOT_RIGHT, b + 1 < lane.start.length ? x(d, lane.start[b + 1]) : Infinity);
          const name = lane.count[b] > 1 ? '' : fitting(g, names[lane.name_at[b]] ?? '', covered - seen - 8);
          if (name) {
            const waits = waited > 0.6 * lane.length[b];
            g.fillStyle = waits ? ink : colour(lane.name === 'compute' ? 'on-compute' : 'on-bright');
            g.textAlign = 'left';
            g.fillText(name, seen + 4, top + LANE / 2 + 0.5);
          }
        }
        g.restore();
        if (document.activeElement === drawing.canvas && k === row) {
          g.strokeStyle = colour('mark');
          g.lineWidth = 1.5;
          g.strokeRect(left(d), top - 0.5, plot(d), LANE + 1);
        }
      });
      if (spot) {
        const k = rows.findIndex((r) => r.lane === spot!.lane);
        const x0 = Math.max(left(d), x(d, spot.lane.start[spot.box])),
          x1 = Math.min(d.width - PLOT_RIGHT, x(d, spot.lane.start[spot.box] + spot.lane.length[spot.box]));
        g.strokeStyle = ink;
        g.lineWidth = 2;
        if (x1 > x0) g.strokeRect(x0, tops[k], Math.max(2, x1 - x0), LANE);
      }
      if (cursor !== null) {
        g.fillStyle = colour('mark');
        g.fillRect(x(d, cursor), AXIS - 6, 1, height - AXIS);
      }
    },
  );
  const updateReadout = () => {
    if (spot) {
      const { lane, box, rank } = spot;
      const many = lane.count[box] > 1 ? `${lane.count[box]} short records, the first ` : '';
      const waited = Number.isNaN(lane.wait[box]) ? '' : `, waited ${time(lane.wait[box])} of it`;
      readout.textContent = `rank ${rank.rank}, ${lane.name}, at ${time(lane.start[box])}: ${many}${timeline.names[lane.name_at[box]]}, ${time(lane.length[box])}${waited}`;
    } else readout.textContent = cursor === null ? 'Select a box to see its name.' : `at ${time(cursor)}`;
    drawing.redraw();
  };
  const view = (begin: number, end: number) => {
    const length = Math.min(timeline.length_ns, Math.max(timeline.length_ns / 20000, end - begin));
    from = Math.min(timeline.length_ns - length, Math.max(0, begin));
    to = from + length;
    drawing.redraw();
  };
  const zoom = (by: number, around: number) => view(around - (around - from) * by, around + (to - around) * by);
  const nsAt = (clientX: number) =>
    from + ((clientX - drawing.canvas.getBoundingClientRect().left - left(drawing)) / plot(drawing)) * (to - from);
  let dragged: { x: number; from: number; to: number } | null = null;
  drawing.canvas.addEventListener('pointerdown', (e) => {
    dragged = { x: e.clientX, from, to };
  });
  addEventListener('pointerup', () => {
    dragged = null;
  });
  drawing.canvas.addEventListener('pointermove', (e) => {
    if (dragged && e.buttons === 1) {
      const by = ((e.clientX - dragged.x) / plot(drawing)) * (dragged.to - dragged.from);
      return view(dragged.from - by, dragged.to - by);
    }
    cursor = nsAt(e.clientX);
    const at = e.clientY - drawing.canvas.getBoundingClientRect().top;
    const k = tops.findIndex((top) => at >= top && at < top + LANE);
    const box = k < 0 ? -1 : boxAt(rows[k].lane, cursor);
    spot = box < 0 ? null : { ...rows[k], box };
    updateReadout();
  });
  drawing.canvas.addEventListener('pointerleave', () => {
    cursor = null;
    drawing.redraw();
  });
  // Zooms only with a modifier key or with the focus. Otherwise a reader could not scroll the page past the
  // picture.
  drawing.canvas.addEventListener(
    'wheel',
    (e) => {
      if (!e.ctrlKey && document.activeElement !== drawing.canvas) return;
      e.preventDefault();
      zoom(e.deltaY > 0 ? 1.25 : 0.8, nsAt(e.clientX));
    },
    { passive: false },
  );
  drawing.canvas.addEventListener('keydown', (e) => {
    const width = to - from;
    const lane = rows[row].lane;
    const go = (by: number) => {
      const box = spot && spot.lane === lane ? spot.box + by : Math.max(0, boxAt(lane, from));
      if (box < 0 || box >= lane.start.length) return;
      spot = { ...rows[row], box };
      if (lane.start[box] < from || lane.start[box] > to) view(lane.start[box] - width / 4, lane.start[box] + (3 * width) / 4);
    };
    const middle = spot ? spot.lane.start[spot.box] + spot.lane.length[spot.box] / 2 : (from + to) / 2;
    const keys: Record<string, () => void> = {
      ArrowLeft: () => view(from - width / 8, to - width / 8),
      ArrowRight: () => view(from + width / 8, to + width / 8),
      ArrowUp: () => {
        row = Math.max(0, row - 1);
      },
      ArrowDown: () => {
        row = Math.min(rows.length - 1, row + 1);
      },
      '+': () => zoom(0.5, middle),
      '=': () => zoom(0.5, middle),
      '-': () => zoom(2, middle),
      '0': () => view(0, timeline.length_ns),
      n: () => go(1),
      p: () => go(-1),
    };
    if (!keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
    updateReadout();
  });
  drawing.canvas.addEventListener('focus', () => drawing.redraw());
  drawing.canvas.addEventListener('blur', () => drawing.redraw());
  const button = (text: string, name: string, act: () => void) => {
    const b = h('button', { type: 'button', 'aria-label': name }, text);
    b.addEventListener('click', act);
    return b;
  };
  updateReadout();
  const merged = timeline.ranks.reduce((sum, r) => sum + r.lanes.reduce((s, l) => s + l.merged, 0), 0);
  return section(
    'timeline',
    'Timeline',
    about,
    legend([
      ['compute', 'compute'],
      ['comm', 'communication, transferring'],
      ['waiting', 'waiting in it'],
      ['memory', 'copies'],
    ]),
    h(
      'div',
      { class: 'tools' },
      button('+', 'zoom in', () => zoom(0.5, (from + to) / 2)),
      button('−', 'zoom out', () => zoom(2, (from + to) / 2)),
      button('whole', 'show the whole window', () => view(0, timeline.length_ns)),
      h(
        'span',
        { class: 'count keys' },
        h('kbd', {}, '←'),
        ' ',
        h('kbd', {}, '→'),
        ' move, ',
        h('kbd', {}, '+'),
        ' ',
        h('kbd', {}, '−'),
        ' zoom, ',
        h('kbd', {}, '↑'),
        ' ',
        h('kbd', {}, '↓'),
        ' lane, ',
        h('kbd', {}, 'n'),
        ' ',
        h('kbd', {}, 'p'),
        ' box',
      ),
    ),
    h('div', { class: 'picture' }, drawing.canvas),
    readout,
    merged > 0 &&
      h('p', { class: 'count' }, `${merged.toLocaleString('en')} records too short to be seen are drawn with their neighbours.`),
  );
}
