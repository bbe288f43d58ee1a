// The bus bandwidth of collectives by their size, one colour per operation and one point per group and size.
import type { CollectiveDetail } from './data';
import { colour, Drawing, h } from './dom';
import { bytes, count, ranks as rankList } from './format';
import { nvlinkPeak } from './nvlink';
import type { CollectiveRow, Report } from './report_types';

export type Row = CollectiveRow & CollectiveDetail;

const LEFT = 58,
  RIGHT = 12,
  TOP = 24,
  BOTTOM = 36,
  HEIGHT = 270,
  REACH = 14; // pixels between the pointer and the point that it shows
const COLOURS = ['compute', 'wait', 'memory', 'unsplit', 'transfer', 'idle'];

const MOST_MEMBERS = 4;

export const membersOf = (r: Row) => (r.members.length > 0 ? rankList(r.members, MOST_MEMBERS) : '–');

interface Point {
  row: Row;
  bytes: number;
  gbps: number;
  count: number;
}

const bandwidth = (gbps: number) => `${gbps >= 10 ? gbps.toFixed(0) : gbps >= 0.1 ? gbps.toFixed(1) : gbps.toPrecision(1)} GB/s`;

// Draws a mark whose shape differs by operation as its colour does.
function mark(g: CanvasRenderingContext2D, kind: number, x: number, y: number, size: number): void {
  g.beginPath();
  if (kind % 3 === 0) g.arc(x, y, size, 0, 2 * Math.PI);
  else if (kind % 3 === 1) g.rect(x - size, y - size, 2 * size, 2 * size);
  else {
    g.moveTo(x, y - 1.3 * size);
    g.lineTo(x + 1.2 * size, y + size);
    g.lineTo(x - 1.2 * size, y + size);
    g.closePath();
  }
  g.fill();
  g.stroke();
}

export function bandwidthPicture(rows: Row[], report: Report): HTMLElement | false {
  const points: Point[] = rows.flatMap((row) => row.sizes.map(([size, gbps, n]) => ({ row, bytes: size, gbps, count: n })));
  const shown = points.filter((p) => p.bytes > 0 && p.gbps > 0);
  if (shown.length === 0) return false;
  const ops = [...new Set(shown.map((p) => p.row.op))];
  const range = (values: number[], base: number): [number, number] => {
    const logs = values.map((v) => Math.log(v) / Math.log(base));
    return [Math.floor(Math.min(...logs)), Math.max(Math.floor(Math.min(...logs)) + 1, Math.ceil(Math.max(...logs)))];
  };
  const across = range(
      shown.map((p) => p.bytes),
      2,
    ),
    peak = nvlinkPeak(report.ranks.map((r) => r.device_name)),
    up = range(
      shown.map((p) => p.gbps).concat(peak ? [peak.gbps] : []),
      10,
    );
  const x = (d: Drawing, size: number) =>
    LEFT + ((Math.log2(size) - across[0]) / (across[1] - across[0])) * (d.width - LEFT - RIGHT);
  const y = (gbps: number) => HEIGHT - BOTTOM - ((Math.log10(gbps) - up[0]) / (up[1] - up[0])) * (HEIGHT - TOP - BOTTOM);
  let at = shown.reduce((best, p, k) => (p.gbps > shown[best].gbps ? k : best), 0);
  const readout = h('p', { class: 'readout', role: 'status', 'aria-live': 'polite' });
  const drawing = new Drawing(
    'Bus bandwidth by size of the collective. Left and right arrows go from point to point.',
    () => HEIGHT,
    (g, d) => {
      g.textBaseline = 'middle';
      g.textAlign = 'right';
      for (let e = up[0]; e <= up[1]; ++e) {
        g.fillStyle = colour('line');
        g.fillRect(LEFT, y(10 ** e), d.width - LEFT - RIGHT, 1);
        g.fillStyle = colour('soft');
        g.fillText(`${10 ** e >= 1 ? 10 ** e : (10 ** e).toPrecision(1)}`, LEFT - 6, y(10 ** e));
      }
      g.textAlign = 'center';
      const every = Math.max(1, Math.ceil(((across[1] - across[0]) * 64) / (d.width - LEFT - RIGHT)));
      for (let e = across[0]; e <= across[1]; e += every) {
        g.fillStyle = colour('line');
        g.fillRect(x(d, 2 ** e), TOP, 1, HEIGHT - TOP - BOTTOM);
        g.fillStyle = colour('soft');
        g.fillText(
          bytes(2 ** e)
            .replace('.00', '')
            .replace(/\.0 /, ' '),
          x(d, 2 ** e),
          HEIGHT - BOTTOM + 12,
        );
      }
      g.fillText('bytes of one rank', LEFT + (d.width - LEFT - RIGHT) / 2, HEIGHT - 8);
      g.textAlign = 'left';
      g.fillText('GB/s', LEFT - 34, 8);
      if (peak) {
        g.fillStyle = colour('soft');
        g.fillRect(LEFT, y(peak.gbps) - 0.75, d.width - LEFT - RIGHT, 1.5);
        g.fillText(`NVLink of ${peak.gpu}, ${peak.gbps} GB/s`, LEFT + 6, y(peak.gbps) - 8);
      }
      g.strokeStyle = colour('card');
      g.lineWidth = 1;
      for (const p of shown) {
        const kind = ops.indexOf(p.row.op);
        g.fillStyle = colour(COLOURS[kind % COLOURS.length]);
        mark(g, kind, x(d, p.bytes), y(p.gbps), 4.5);
      }
      g.strokeStyle = colour('ink');
      g.lineWidth = 2;
      g.beginPath();
      g.arc(x(d, shown[at].bytes), y(shown[at].gbps), 8, 0, 2 * Math.PI);
      g.stroke();
    },
  );
  const show = (k: number) => {
    at = k;
    const p = shown[k];
    readout.textContent = `${p.row.op} of ${p.row.group} (ranks ${membersOf(p.row)}): ${bytes(p.bytes)}, ${bandwidth(p.gbps)}, ${count(p.count)} ${p.count === 1 ? 'instance' : 'instances'}`;
    drawing.redraw();
  };
  drawing.canvas.addEventListener('mousemove', (e) => {
    const box = drawing.canvas.getBoundingClientRect();
    const distance = (p: Point) => Math.hypot(x(drawing, p.bytes) - (e.clientX - box.left), y(p.gbps) - (e.clientY - box.top));
    const nearest = shown.reduce((best, p, k) => (distance(p) < distance(shown[best]) ? k : best), 0);
    if (distance(shown[nearest]) < REACH) show(nearest);
  });
  const order = shown.map((_, k) => k).sort((a, b) => shown[a].bytes - shown[b].bytes || shown[a].gbps - shown[b].gbps);
  drawing.canvas.addEventListener('keydown', (e) => {
    const by = e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0;
    if (by === 0) return;
    e.preventDefault();
    const next = order[order.indexOf(at) + by];
    if (next !== undefined) show(next);
  });
  show(at);
  return h(
    'figure',
    {},
    h('h3', {}, 'Bandwidth by size'),
    h(
      'ul',
      { class: 'legend' },
      ...ops.map((op, k) => h('li', {}, h('span', { class: `swatch ${COLOURS[k % COLOURS.length]} shape${k % 3}` }), op)),
    ),
    h('div', { class: 'picture' }, drawing.canvas),
    readout,
    peak &&
      h(
        'p',
        { class: 'count' },
        `The line is the peak of NVLink in one direction (${peak.gpu}: ${peak.gbps} GB/s). It limits groups within a host; the network limits the others.`,
      ),
  );
}
