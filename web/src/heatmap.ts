// Heat map of steps by ranks: the cost of each rank's own work in each step.
import type { Page } from './data';
import { choose, chosen, colour, Drawing, FONT, h, section } from './dom';
import { culprits } from './findings';
import { time } from './format';
import { hostBoundaries, hostRuns } from './hosts';
import { colourScale, shade } from './scale';

const HOST_LETTERS = 13,
  HOST_LETTER = 7.5, // pixels
  LEAST_HOST_HEIGHT = 10, // pixels; lines that are closer would hide the cells
  RANKS = 46,
  TOP = 4,
  BOTTOM = 34,
  LINE = 13,
  MOST_ON_PAPER = 640; // pixels

type Measure = 'lost' | 'wait' | 'duration';
const MEASURES: [Measure, string][] = [
  ['lost', 'lost time'],
  ['wait', 'own waiting'],
  ['duration', 'duration'],
];

function rgb(hex: string): number[] {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

export function heatmap(page: Page): HTMLElement {
  const { steps, report } = page;
  const rows = report.ranks.length,
    columns = steps.numbers.length;
  const about =
    'Orange is what a rank’s own work cost the job in that step; blue is time that it gained. One row is one rank; lines separate hosts.';
  if (columns === 0) return section('heat', 'Lost time by step and rank', about, h('p', {}, 'No whole step was recorded.'));
  let measure: Measure = 'lost';
  let at = { step: 0, row: 0 };
  const data = () => (measure === 'lost' ? steps.lost : measure === 'wait' ? steps.wait : steps.cell_duration);
  // The 99.5th percentile has the darkest colour, so that one extreme cell does not make all others pale.
  const scales = new Map<Measure, { low: number; high: number }>();
  // One slow rank among a thousand has fewer cells than that percentile leaves out. Its mean loss must still
  // be dark.
  const worstMean = () => {
    const sums = new Float64Array(rows);
    steps.lost.forEach((v, k) => (sums[k % rows] += v || 0));
    return sums.reduce((a, b) => Math.max(a, b), 0) / columns;
  };
  const scale = () => {
    let s = scales.get(measure);
    if (!s) {
      const sorted = data()
        .filter((v) => !Number.isNaN(v))
        .map((v) => (measure === 'duration' ? v : Math.abs(v)))
        .sort();
      const high = sorted[Math.floor(0.995 * (sorted.length - 1))] ?? 1;
      // A healthy job must look pale: values within the noise are not dark.
      const noise = report.slowdown.noise_floor_ns_per_step ?? 0;
      s = {
        low: measure === 'duration' ? (sorted[0] ?? 0) : 0,
        high: measure === 'lost' ? Math.max(high, 4 * noise, worstMean()) : high,
      };
      scales.set(measure, s);
    }
    return s;
  };
  const guilty = new Set(culprits(page));
  const runs = hostRuns(report.ranks),
    boundaries = hostBoundaries(report.ranks);
  const colours = colourScale(() => {
    const { low, high } = scale();
    return { low: measure === 'lost' ? `−${time(high)}` : time(low), high: `${time(high)} or more`, signed: measure === 'lost' };
  });
  const readout = h('p', { class: 'readout', role: 'status', 'aria-live': 'polite' });
  const onScreen = Math.max(rows > 400 ? 1 : 2, Math.min(18, Math.floor(420 / rows)));
  // On paper the picture must fit below its title.
  const cellHeight = () => (document.documentElement.dataset.printing ? Math.min(onScreen, MOST_ON_PAPER / rows) : onScreen);
  const picture = document.createElement('canvas');
  picture.width = columns;
  picture.height = rows;
  const paint = () => {
    const g = picture.getContext('2d')!;
    const image = g.createImageData(columns, rows);
    const zero = rgb(colour('heat-zero')),
      more = rgb(colour('heat-more')),
      less = rgb(colour('heat-less'));
    const { low, high } = scale();
    const values = data();
    for (let k = 0; k < columns; ++k) {
      for (let r = 0; r < rows; ++r) {
        const value = values[k * rows + r];
        const to = (r * columns + k) * 4;
        if (Number.isNaN(value)) continue;
        const part = shade(Math.abs(value - low) / Math.max(1, high - low));
        const end = value < low ? less : more;
        for (let c = 0; c < 3; ++c) image.data[to + c] = zero[c] + part * (end[c] - zero[c]);
        image.data[to + 3] = 255;
      }
    }
    g.putImageData(image, 0, 0);
  };
  // Narrow screens have no room for the names of hosts.
  const hostNames = runs.map(({ host }) => (host.length > HOST_LETTERS ? `${host.slice(0, HOST_LETTERS - 1)}…` : host));
  const hostsWidth = HOST_LETTER * Math.max(...hostNames.map((n) => n.length)) + 8;
  const left = (d: Drawing) => RANKS + (boundaries.length > 0 && d.width > 520 ? hostsWidth : 0);
  const area = (d: Drawing) => ({ width: d.width - left(d) - 4, height: rows * cellHeight() });
  const drawHosts = (g: CanvasRenderingContext2D, d: Drawing) => {
    const { width } = area(d);
    if (rows * cellHeight() >= LEAST_HOST_HEIGHT * runs.length) {
      g.fillStyle = colour('soft');
      for (const row of boundaries) {
        g.fillRect(left(d), TOP + row * cellHeight() - 0.5, width, 1);
        g.fillRect(0, TOP + row * cellHeight() - 0.5, left(d) - RANKS, 1);
      }
    }
    if (left(d) === RANKS) return;
    g.fillStyle = colour('soft');
    g.textAlign = 'left';
    let bottom = -Infinity;
    runs.forEach((run, k) => {
      const middle = TOP + (run.first + run.count / 2) * cellHeight();
      if (middle - LINE / 2 < bottom) return;
      bottom = middle + LINE / 2;
      g.fillText(hostNames[k], 2, middle);
    });
  };
  // Names the ranks at regular distances. The verdict's ranks always have a name.
  const drawRanks = (g: CanvasRenderingContext2D, d: Drawing) => {
    g.textAlign = 'right';
    const every = Math.max(1, Math.ceil((LINE + 1) / cellHeight()));
    const stride = every <= 1 ? 1 : 2 ** Math.ceil(Math.log2(every));
    const named = report.ranks.flatMap((r, k) => (guilty.has(r.rank) ? [k] : []));
    for (let r = 0; r < rows; r += stride) {
      if (named.some((k) => Math.abs(k - r) * cellHeight() < LINE)) continue;
      g.fillStyle = colour('soft');
      g.fillText(String(report.ranks[r].rank), left(d) - 6, TOP + (r + 0.5) * cellHeight());
    }
    let bottom = -Infinity;
    for (const r of named) {
      const middle = TOP + (r + 0.5) * cellHeight();
      if (middle - LINE < bottom) continue;
      bottom = middle;
      g.fillStyle = colour('bad');
      g.font = `bold ${FONT}`;
      g.fillText(`▸ ${report.ranks[r].rank}`, left(d) - 6, middle);
      g.font = FONT;
    }
  };
  const drawing = new Drawing(
    'Lost time by step and rank. Arrow keys move, Enter chooses the rank.',
    () => rows * cellHeight() + TOP + BOTTOM,
    (g, d) => {
      const { width, height } = area(d);
      g.imageSmoothingEnabled = false;
      g.drawImage(picture, left(d), TOP, width, height);
      g.textBaseline = 'middle';
      drawHosts(g, d);
      drawRanks(g, d);
      g.fillStyle = colour('soft');
      g.textBaseline = 'top';
      g.textAlign = 'center';
      const labels = Math.max(1, Math.ceil(columns / Math.max(2, width / 60)));
      for (let k = 0; k < columns; k += labels)
        g.fillText(String(steps.numbers[k]), left(d) + ((k + 0.5) * width) / columns, TOP + height + 4);
      g.fillText('step', left(d) + width / 2, TOP + height + 19);
      const frame = (row: number, name: string) => {
        g.strokeStyle = colour(name);
        g.lineWidth = 2;
        g.strokeRect(left(d) - 1, TOP + row * cellHeight() - 1, width + 2, cellHeight() + 2);
      };
      const marked = report.ranks.findIndex((r) => r.rank === chosen());
      if (marked >= 0) frame(marked, 'mark');
      g.strokeStyle = colour('ink');
      g.lineWidth = 2;
      g.strokeRect(
        left(d) + (at.step * width) / columns,
        TOP + at.row * cellHeight(),
        Math.max(3, width / columns),
        Math.max(3, cellHeight()),
      );
    },
  );
  const updateReadout = () => {
    const k = at.step * rows + at.row,
      rank = report.ranks[at.row];
    readout.textContent = `step ${steps.numbers[at.step]}, rank ${rank.rank} on ${rank.host}: cost the job ${time(steps.lost[k])}, waited ${time(steps.wait[k])} itself, took ${time(steps.cell_duration[k])}`;
    drawing.redraw();
  };
  const place = (event: MouseEvent) => {
    const box = drawing.canvas.getBoundingClientRect();
    const { width } = area(drawing);
    const step = Math.floor(((event.clientX - box.left - left(drawing)) / width) * columns),
      row = Math.floor((event.clientY - box.top - TOP) / cellHeight());
    if (step < 0 || step >= columns || row < 0 || row >= rows) return false;
    at = { step, row };
    updateReadout();
    return true;
  };
  drawing.canvas.addEventListener('mousemove', place);
  drawing.canvas.addEventListener('click', (e) => {
    if (place(e)) choose(report.ranks[at.row].rank);
  });
  drawing.canvas.addEventListener('keydown', (e) => {
    const by: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
      PageUp: [0, -16],
      PageDown: [0, 16],
      Home: [-columns, 0],
      End: [columns, 0],
    };
    if (e.key === 'Enter' || e.key === ' ') choose(report.ranks[at.row].rank);
    else if (by[e.key])
      at = {
        step: Math.min(columns - 1, Math.max(0, at.step + by[e.key][0])),
        row: Math.min(rows - 1, Math.max(0, at.row + by[e.key][1])),
      };
    else return;
    e.preventDefault();
    updateReadout();
  });
  const select = h('select', {}, ...MEASURES.map(([m, name]) => h('option', { value: m }, name)));
  select.addEventListener('change', () => {
    measure = select.value as Measure;
    paint();
    colours.update();
    drawing.redraw();
  });
  addEventListener('themechange', paint);
  addEventListener('rankchosen', () => drawing.redraw());
  paint();
  // The cursor starts at the worst cell.
  let worst = 0;
  steps.lost.forEach((v, k) => {
    if (v > (steps.lost[worst] || 0)) worst = k;
  });
  at = { step: Math.floor(worst / rows), row: worst % rows };
  updateReadout();
  return section(
    'heat',
    'Lost time by step and rank',
    about,
    h(
      'div',
      { class: 'tools' },
      h('label', {}, 'Show', select),
      colours.element,
      h('span', { class: 'count keys' }, 'point or use the arrow keys; a click chooses the rank everywhere'),
    ),
    h('div', { class: 'picture' }, drawing.canvas),
    readout,
  );
}
