// The collectives: a table by group and operation with a picture of each row's skews, and the bandwidth by size.
import { bandwidthPicture, membersOf, type Row } from './bandwidth';
import type { Page } from './data';
import { choose, colour, Drawing, h, section } from './dom';
import { bytes, count, percent, ranks as rankList, time } from './format';
import { term } from './glossary';
import { type Column, table } from './table';

// Below this size, latency decides how long a transfer takes, so that a bandwidth would say nothing of the link.
const LEAST_BYTES = 4096;
// Smaller bandwidths would be shown as 0.0.
const LEAST_GBPS = 0.05;

const sizeOf = (r: Row) => (r.bytes == null || r.bytes_count === 0 ? null : r.bytes / r.bytes_count);
export const bandwidthOf = (r: Row) =>
  r.busbw_gbps == null || r.busbw_gbps < LEAST_GBPS || (sizeOf(r) ?? 0) < LEAST_BYTES ? null : r.busbw_gbps;

// Draws the skews of one row's instances, from 1 us upwards, with two bins per doubling (analysis::SkewBin).
function strip(counts: number[], bins: number): HTMLElement {
  const most = Math.max(1, ...counts);
  const at = counts
    .map((n, k) => (n > 0 ? `${count(n)} from ${time(k === 0 ? 0 : 1000 * 2 ** ((k - 1) / 2))}` : ''))
    .filter(Boolean);
  const drawing = new Drawing(
    `skews: ${at.join(', ')}`,
    () => 26,
    (g, d) => {
      g.fillStyle = colour('line');
      g.fillRect(0, d.height - 1, d.width, 1);
      g.fillStyle = colour('wait');
      const width = d.width / bins;
      counts.forEach((n, k) => {
        if (n === 0) return;
        const height = Math.max(2, (n / most) * (d.height - 3));
        g.fillRect(k * width, d.height - 1 - height, Math.max(1, width - 1), height);
      });
    },
  );
  drawing.canvas.className = 'strip';
  drawing.canvas.removeAttribute('tabindex');
  drawing.canvas.setAttribute('role', 'img');
  drawing.canvas.title = at.join('\n');
  return drawing.canvas;
}

function columnsOf(rows: Row[]): Column<Row>[] {
  const bins = Math.max(1, ...rows.map((r) => r.skews.length));
  // Groups of several dimensions may have one name each, so that only the members tell them apart.
  const whole = (r: Row) => rankList(r.members, Infinity);
  // The report sums over members and instances.
  const mean = (sum: number | null, r: Row) => (sum == null ? null : sum / Math.max(1, r.count * r.group_size));
  return [
    { name: 'group', term: 'group', value: (r) => r.group },
    {
      name: 'members',
      about: 'ranks of the group',
      value: whole,
      show: (r) => {
        const cell = h('span', {}, membersOf(r));
        cell.title = whole(r);
        return cell;
      },
    },
    { name: 'ranks', number: true, value: (r) => r.group_size },
    { name: 'operation', term: 'collective', value: (r) => r.op },
    { name: 'count', number: true, value: (r) => r.count, show: (r) => count(r.count) },
    {
      name: 'mean size',
      number: true,
      value: sizeOf,
      show: (r) => bytes(sizeOf(r)),
      about: 'bytes of one rank in one instance, over the instances of which they are known',
    },
    {
      name: 'mean waiting',
      number: true,
      value: (r) => mean(r.wait_ns, r),
      show: (r) => time(mean(r.wait_ns, r)),
      about: 'mean per member and instance: how long a member waited for the last one',
    },
    {
      name: 'mean transfer',
      number: true,
      value: (r) => mean(r.transfer_ns, r),
      show: (r) => time(mean(r.transfer_ns, r)),
      about: 'mean per member and instance',
    },
    {
      name: 'sum of waiting',
      number: true,
      value: (r) => r.wait_ns,
      show: (r) => time(r.wait_ns),
      about: 'sum over members and instances',
    },
    {
      name: 'skew',
      term: 'skew',
      value: (r) => r.skew_ns.p50,
      show: (r) => (r.skews.length > 0 ? strip(r.skews, bins) : '–'),
    },
    { name: 'median skew', number: true, term: 'skew', value: (r) => r.skew_ns.p50, show: (r) => time(r.skew_ns.p50) },
    { name: 'p99 skew', number: true, term: 'skew', value: (r) => r.skew_ns.p99, show: (r) => time(r.skew_ns.p99) },
    {
      name: 'bus GB/s',
      number: true,
      term: 'bus bandwidth',
      value: bandwidthOf,
      show: (r) => bandwidthOf(r)?.toFixed(1) ?? '–',
    },
    {
      name: 'came last most often',
      value: (r) => r.last_arrivals[0]?.count ?? null,
      show: (r) =>
        r.last_arrivals
          .slice(0, 3)
          .map((l) => `rank ${l.rank}: ${percent(l.count / Math.max(1, r.count), 0)}`)
          .join(', ') || '–',
    },
  ];
}

export function collectives(page: Page): HTMLElement {
  const rows: Row[] = page.report.collectives.map((c, k) => ({ ...c, ...page.collectives[k] }));
  const title = 'Collectives by group';
  if (rows.length === 0) return section('collectives', title, '', h('p', {}, 'No communication between ranks was recorded.'));
  const columns = columnsOf(rows);
  const bound = page.report.capture.clock.bound_ns;
  return section(
    'collectives',
    title,
    '',
    h(
      'p',
      { class: 'about' },
      term('skew', 'Skew'),
      ` is the time from the first rank’s arrival to the last one’s${bound ? `; clocks agree within ${time(bound)}` : ''}. The small pictures share one logarithmic scale from 1 us. A bandwidth of messages below ${bytes(LEAST_BYTES)} is left out, because it would measure latency.`,
    ),
    table(columns, rows, {
      caption: 'collectives',
      sort: { column: columns.findIndex((c) => c.name === 'sum of waiting'), down: true },
      onChoose: (r) => choose(r.last_arrivals[0]?.rank ?? null),
    }),
    bandwidthPicture(rows, page.report),
  );
}
