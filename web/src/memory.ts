// Memory in use over time, with the allocations that make up each peak.
import type { MemoryCurve, Page } from './data';
import { colour, Drawing, FONT, h, section } from './dom';
import { bytes, tickDistance, time } from './format';

const LEFT = 74,
  RIGHT = 12,
  TOP = 22,
  BOTTOM = 24,
  HEIGHT = 190;

const GIB = 1024 ** 3,
  MIB = 1024 ** 2,
  KIB = 1024;

// Ticks are round numbers of the largest unit that fits.
function ticks(low: number, high: number): number[] {
  const unit = [GIB, MIB, KIB].find((u) => high - low >= u) ?? 1;
  const distance = tickDistance((high - low) / unit, 4) * unit;
  const out: number[] = [];
  for (let t = Math.ceil(low / distance) * distance; t <= high; t += distance) out.push(t);
  return out;
}

function picture(curve: MemoryCurve): HTMLElement {
  const end = Math.max(1, curve.time[curve.time.length - 1]);
  let low = 0,
    high = 1;
  for (const v of curve.in_use) {
    low = Math.min(low, v);
    high = Math.max(high, v);
  }
  const drawing = new Drawing(
    `memory in use of rank ${curve.rank}: ${curve.peaks.map((p, k) => `peak ${k + 1}, ${bytes(p.bytes)} at ${time(p.time_ns)}`).join(', ')}`,
    () => HEIGHT,
    (g, d) => {
      const x = (ns: number) => LEFT + (ns / end) * (d.width - LEFT - RIGHT);
      const y = (v: number) => HEIGHT - BOTTOM - ((v - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
      g.textBaseline = 'middle';
      g.textAlign = 'right';
      for (const t of ticks(low, high)) {
        g.fillStyle = colour('line');
        g.fillRect(LEFT, y(t), d.width - LEFT - RIGHT, 1);
        g.fillStyle = colour('soft');
        g.fillText(bytes(t), LEFT - 6, y(t));
      }
      g.textAlign = 'center';
      const every = tickDistance(end, (d.width - LEFT - RIGHT) / 90);
      for (let t = 0; t <= end; t += every) g.fillText(time(t), Math.min(x(t), d.width - 24), HEIGHT - BOTTOM + 12);
      // Memory stays in use until the next event.
      g.beginPath();
      g.moveTo(x(0), y(0));
      curve.time.forEach((ns, k) => {
        g.lineTo(x(ns), y(k > 0 ? curve.in_use[k - 1] : 0));
        g.lineTo(x(ns), y(curve.in_use[k]));
      });
      g.strokeStyle = colour('memory');
      g.lineWidth = 1.5;
      g.stroke();
      g.lineTo(x(end), y(0));
      g.closePath();
      g.globalAlpha = 0.18;
      g.fillStyle = colour('memory');
      g.fill();
      g.globalAlpha = 1;
      curve.peaks.forEach((p, k) => {
        g.fillStyle = colour('ink');
        g.font = `bold ${FONT}`;
        g.fillText(String(k + 1), Math.max(LEFT + 6, x(p.time_ns)), y(p.bytes) - 10);
        g.fillRect(x(p.time_ns) - 0.75, y(p.bytes) - 3, 1.5, 6);
      });
    },
  );
  drawing.canvas.removeAttribute('tabindex');
  drawing.canvas.setAttribute('role', 'img');
  return h('div', { class: 'picture' }, drawing.canvas);
}

function peaks(curve: MemoryCurve): HTMLElement | false {
  if (curve.peaks.length === 0) return false;
  return h(
    'ol',
    { class: 'peaks' },
    ...curve.peaks.map((p) => {
      const owners = p.owners.map((o) => `${o.name} ${bytes(o.bytes)}`);
      if (owners.length > 0 && p.unknown_bytes > 0) owners.push(`others and earlier allocations ${bytes(p.unknown_bytes)}`);
      return h(
        'li',
        {},
        `${bytes(p.bytes)} at ${time(p.time_ns)}: ${owners.length > 0 ? owners.join(', ') : 'the owners are unknown, because the allocations were recorded without addresses or before the capture'}`,
      );
    }),
  );
}

export function memoryPart(page: Page): HTMLElement {
  return section(
    'memory',
    'Memory over time',
    'Memory in use of the ranks with the highest peaks. The list below each picture names the operators whose allocations are in use at a peak. Times count from the first allocation or release.',
    h(
      'div',
      { class: 'pair' },
      ...page.memory.map((curve) =>
        h(
          'div',
          {},
          h('h3', {}, `rank ${curve.rank}, ${curve.place}, ${curve.kind}`),
          picture(curve),
          curve.relative &&
            h('p', { class: 'count' }, 'Counted from 0 at the begin of the capture, because the allocator reports no total.'),
          peaks(curve),
        ),
      ),
    ),
  );
}
