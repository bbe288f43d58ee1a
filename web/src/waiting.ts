// The waiting between ranks as a matrix, by host in large jobs, and its largest entries as a table.
import type { Page } from './data';
import { choose, chosen, colour, Drawing, h, section } from './dom';
import { count, percent, time } from './format';
import { term } from './glossary';
import { hostBoundaries } from './hosts';
import { colourScale, shade } from './scale';
import type { WaitingCauserRow, WaitingCellRow, WaitingRow } from './report_types';
import { table } from './table';

const LEFT = 62,
  TOP = 22,
  BOTTOM = 8;

// Returns the matrix with means per waiting rank. The report sums the cells of a host over its ranks.
function meanCells(page: Page, waiting: WaitingRow): WaitingCellRow[] {
  if (waiting.level === 'rank') return waiting.cells;
  const ranks = new Map<string, number>();
  for (const r of page.report.ranks) ranks.set(r.host, (ranks.get(r.host) ?? 0) + 1);
  return waiting.cells.map((c) => ({ ...c, wait_ns_per_step: c.wait_ns_per_step / (ranks.get(waiting.places[c.victim]) ?? 1) }));
}

function matrix(page: Page, waiting: WaitingRow): HTMLElement {
  const boundaries = waiting.level === 'rank' ? hostBoundaries(page.report.ranks) : [];
  const n = waiting.places.length;
  const by = new Map(waiting.cells.map((c) => [c.causer * n + c.victim, c.wait_ns_per_step]));
  const most = Math.max(1, ...waiting.cells.map((c) => c.wait_ns_per_step));
  const first = waiting.cells.reduce(
    (a, c) => (c.wait_ns_per_step > a.wait_ns_per_step ? c : a),
    waiting.cells[0] ?? { causer: 0, victim: 0, wait_ns_per_step: 0 },
  );
  let at = { causer: first.causer, victim: first.victim };
  const name = (k: number) => (waiting.level === 'rank' ? `rank ${waiting.places[k]}` : String(waiting.places[k]));
  const readout = h('p', { class: 'readout', role: 'status', 'aria-live': 'polite' });
  const sideOf = (width: number) => Math.max(3, Math.min(26, Math.floor((width - LEFT - 4) / n)));
  const drawing = new Drawing(
    'Matrix of waiting. Arrow keys move, Enter chooses the rank.',
    (width) => n * sideOf(width) + TOP + BOTTOM,
    (g, d) => {
      const side = sideOf(d.width);
      g.fillStyle = colour('heat-zero');
      g.fillRect(LEFT, TOP, n * side, n * side);
      for (const c of waiting.cells) {
        g.globalAlpha = shade(c.wait_ns_per_step / most);
        g.fillStyle = colour('heat-more');
        g.fillRect(LEFT + c.victim * side, TOP + c.causer * side, side - (side > 6 ? 1 : 0), side - (side > 6 ? 1 : 0));
      }
      g.globalAlpha = 1;
      g.fillStyle = colour('soft');
      for (const place of boundaries) {
        g.fillRect(LEFT, TOP + place * side - 0.75, n * side, 1);
        g.fillRect(LEFT + place * side - 0.75, TOP, 1, n * side);
      }
      const every = 2 ** Math.max(0, Math.ceil(Math.log2(14 / side))),
        across = 2 ** Math.max(0, Math.ceil(Math.log2(24 / side)));
      const short = (k: number) => {
        const t = String(waiting.places[k]);
        return t.length > 8 ? `${t.slice(0, 7)}…` : t;
      };
      g.textBaseline = 'middle';
      g.textAlign = 'right';
      for (let k = 0; k < n; k += every) g.fillText(short(k), LEFT - 5, TOP + (k + 0.5) * side);
      g.textAlign = 'center';
      if (waiting.level === 'rank') for (let k = 0; k < n; k += across) g.fillText(short(k), LEFT + (k + 0.5) * side, TOP - 9);
      const marked = waiting.places.findIndex((p) => Number(p) === chosen());
      g.lineWidth = 2;
      if (waiting.level === 'rank' && marked >= 0) {
        g.strokeStyle = colour('mark');
        g.strokeRect(LEFT - 1, TOP + marked * side - 1, n * side + 1, side + 1);
      }
      g.strokeStyle = colour('ink');
      g.strokeRect(LEFT + at.victim * side, TOP + at.causer * side, side, side);
    },
  );
  const updateReadout = () => {
    const mean = waiting.level === 'host' ? ' (mean of its ranks)' : '';
    readout.textContent = `${name(at.victim)} waited ${time(by.get(at.causer * n + at.victim) ?? 0)} per step for ${name(at.causer)}${mean}`;
    drawing.redraw();
  };
  const place = (e: MouseEvent) => {
    const box = drawing.canvas.getBoundingClientRect(),
      side = sideOf(drawing.width);
    const victim = Math.floor((e.clientX - box.left - LEFT) / side),
      causer = Math.floor((e.clientY - box.top - TOP) / side);
    if (victim < 0 || causer < 0 || victim >= n || causer >= n) return false;
    at = { causer, victim };
    updateReadout();
    return true;
  };
  const take = () => {
    if (waiting.level === 'rank') choose(Number(waiting.places[at.causer]));
  };
  drawing.canvas.addEventListener('mousemove', place);
  drawing.canvas.addEventListener('click', (e) => {
    if (place(e)) take();
  });
  drawing.canvas.addEventListener('keydown', (e) => {
    const step: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
    };
    if (e.key === 'Enter') take();
    else if (step[e.key])
      at = {
        victim: Math.min(n - 1, Math.max(0, at.victim + step[e.key][0])),
        causer: Math.min(n - 1, Math.max(0, at.causer + step[e.key][1])),
      };
    else return;
    e.preventDefault();
    updateReadout();
  });
  addEventListener('rankchosen', () => drawing.redraw());
  updateReadout();
  return h(
    'div',
    {},
    h(
      'p',
      { class: 'count' },
      `Row: the ${waiting.level} that was waited for. Column: the ${waiting.level} that waited.`,
      waiting.level === 'host' ? ' The matrix shows hosts, because the job has more than 64 ranks.' : '',
      boundaries.length > 0 ? ' Lines separate hosts.' : '',
    ),
    colourScale(() => ({ low: '0', high: time(most) })).element,
    h('div', { class: 'picture' }, drawing.canvas),
    readout,
  );
}

export function waitingPart(page: Page): HTMLElement {
  const found = page.report.waiting;
  const title = 'Waiting between ranks';
  if (!found || found.places.length === 0)
    return section('waiting', title, '', h('p', {}, 'Nothing could be replayed, so waiting has no known cause.'));
  const waiting = { ...found, cells: meanCells(page, found) };
  const all = Math.max(1, waiting.waited_ns_per_step);
  const total = (c: WaitingCauserRow) => c.direct_ns_per_step + c.passed_on_ns_per_step;
  const share = (part: number, whole: number) => percent(part / Math.max(1, whole), 0);
  const causers = table<WaitingCauserRow>(
    [
      { name: 'rank', number: true, value: (c) => c.rank },
      { name: 'host', value: (c) => c.host },
      {
        name: 'waiting for it',
        number: true,
        term: 'waiting for a rank',
        value: (c) => c.mean_wait_ns_per_step,
        show: (c) => time(c.mean_wait_ns_per_step),
      },
      { name: 'ranks that waited', number: true, value: (c) => c.victims, show: (c) => count(c.victims) },
      { name: 'of all waiting', number: true, value: (c) => total(c) / all, show: (c) => share(total(c), all) },
      {
        name: 'direct',
        number: true,
        term: 'passed on',
        value: (c) => c.direct_ns_per_step / total(c),
        show: (c) => share(c.direct_ns_per_step, total(c)),
      },
      {
        name: 'passed on',
        number: true,
        term: 'passed on',
        value: (c) => c.passed_on_ns_per_step / total(c),
        show: (c) => share(c.passed_on_ns_per_step, total(c)),
      },
      { name: 'path', wrap: true, value: (c) => c.path },
    ],
    waiting.causers,
    { caption: 'ranks that were waited for', chosen: (c) => c.rank === chosen(), onChoose: (c) => choose(c.rank) },
  );
  const pairs = table<WaitingCellRow>(
    [
      { name: `${waiting.level} that waited`, value: (c) => waiting.places[c.victim] },
      { name: 'for', value: (c) => waiting.places[c.causer] },
      {
        name: 'per step',
        number: true,
        term: 'waiting for a rank',
        value: (c) => c.wait_ns_per_step,
        show: (c) => time(c.wait_ns_per_step),
      },
    ],
    waiting.cells,
    { caption: 'pairs', sort: { column: 2, down: true }, rowsOnPaper: 12 },
  );
  const about = h(
    'p',
    { class: 'about' },
    term('waiting for a rank', 'Waiting'),
    ` is beyond what a job of typical ranks would have, as a mean per waiting rank and step. The sum over all ranks is ${time(waiting.waited_ns_per_step)} per step, ${share(waiting.unexplained_ns_per_step, all)} of it without a known cause.`,
  );
  return section(
    'waiting',
    title,
    '',
    about,
    h('h3', {}, 'Ranks that were waited for'),
    causers,
    h(
      'div',
      { class: 'pair' },
      h('div', {}, h('h3', {}, 'Matrix'), matrix(page, waiting)),
      h('div', {}, h('h3', {}, 'Pairs'), pairs),
    ),
  );
}
