// The parts of the page that consist of words and tables.
import type { Page } from './data';
import { choose, chosen, colour, Drawing, h, section } from './dom';
import { bytes, count, interval, percent, ranks as rankList, time } from './format';
import type { CollectiveRow, RankRow, StragglerRow } from './report_types';
import { type Cell, type Column, table } from './table';

const WORDS: Record<string, string> = { STRAGGLER: 'bad', SLOW: 'bad', HEALTHY: 'good' };

export const rankName = (r: RankRow) => `rank ${r.rank}${r.incarnation > 1 ? ` (${r.incarnation})` : ''}`;

// The verdict. The numbers beside it show their basis and their limitations.
export function verdict(page: Page): HTMLElement {
  const { report } = page;
  const [word, ...rest] = page.verdict.split(' ');
  const s = report.slowdown;
  const best = report.stragglers[0];
  const figure = (name: string, value: string, beside: string) =>
    h('div', { class: 'figure' }, h('dt', {}, name), h('dd', {}, value, h('small', {}, beside)));
  const noise =
    s.noise_floor_ns_per_step == null ? 'no noise floor: fewer than 3 steps' : `noise floor ${time(s.noise_floor_ns_per_step)}`;
  const figures = h(
    'dl',
    { class: 'figures' },
    figure('Step', time(s.step_ns), `${count(report.capture.steps)} steps used`),
    figure('Ideal step', time(s.ideal_step_ns), 'every rank typical'),
    figure(
      'Slowdown',
      s.ratio == null ? '–' : `${s.ratio.toFixed(3)}x`,
      interval(s.interval, (n) => n.toFixed(3)) || 'no interval',
    ),
    figure('Lost per step', time(s.lost_ns_per_step), noise),
    best && figure('Fixing the first gains', time(best.gain_ns_per_step), interval(best.gain_interval, time) || 'no interval'),
    best && figure('Confidence', best.confidence == null ? '–' : percent(best.confidence, 0), `verdict: ${best.verdict}`),
  );
  const list = (items: string[]) => items.length > 0 && h('ul', {}, ...items.map((i) => h('li', {}, i)));
  return h(
    'section',
    { class: `card verdict ${WORDS[word] ?? 'warn'}`, id: 'verdict', 'aria-label': 'Verdict' },
    h('p', { class: 'sentence' }, h('span', { class: 'word' }, word), ' ', rest.join(' ')),
    list(best ? best.evidence : report.not_the_cause),
    figures,
  );
}

export function trust(page: Page): HTMLElement {
  const c = page.report.capture;
  const weak: string[] = [];
  if (c.steps < 3) weak.push(`${c.steps} whole steps: a verdict needs 3`);
  if (c.missing_ranks.length > 0)
    weak.push(`${c.missing_ranks.length} of ${c.world_size} ranks were not recorded: ${rankList(c.missing_ranks)}`);
  for (const r of c.incomplete.slice(0, 4)) weak.push(`rank ${r.rank} is not complete: ${r.reason}`);
  if (c.incomplete.length > 4) weak.push(`${count(c.incomplete.length)} ranks are not complete: ${rankList(c.incomplete.map((r) => r.rank))}`);
  const lost = c.losses.reduce((sum, l) => sum + l.records, 0);
  if (lost > 0)
    weak.push(`${count(lost)} records were lost on ${new Set(c.losses.map((l) => l.rank)).size} ranks (table "losses")`);
  for (const g of c.graphs_not_visible.slice(0, 4))
    weak.push(`rank ${g.rank}: ${count(g.launches)} graph launches left no record; its idle time is not idle`);
  const m = c.matching;
  if (m.matched_fraction != null && m.matched_fraction < 0.999)
    weak.push(`${percent(m.matched_fraction)} of the communication was matched across ranks`);
  if (m.partial > 0) weak.push(`${count(m.partial)} collectives lack ranks or records: their waits are at least what is shown`);
  const bound = c.clock.bound_ns;
  const clocks =
    bound == null
      ? 'how far clocks differ is not known'
      : bound === 0
        ? 'one clock'
        : `clocks agree within ${time(bound)}: nothing shorter means anything between hosts`;
  const fine = weak.length === 0;
  return h(
    'section',
    { class: `card trust ${fine ? 'fine' : ''}`, id: 'trust', 'aria-labelledby': 'trust-title' },
    h('h2', { id: 'trust-title' }, fine ? 'Nothing was lost' : 'What weakens these numbers'),
    h('ul', {}, ...weak.map((w) => h('li', {}, w)), h('li', {}, clocks), ...c.notes.map((n) => h('li', {}, n))),
  );
}

export function stragglers(page: Page): HTMLElement {
  const { report } = page;
  const columns: Column<StragglerRow>[] = [
    { name: 'who', value: (s) => `${s.kind} ${rankList(s.ranks)}` },
    { name: 'hosts', value: (s) => s.hosts.join(', ') },
    { name: 'cause', value: (s) => s.cause },
    {
      name: 'verdict',
      value: (s) => s.verdict,
      show: (s) => `${s.verdict} ${s.confidence == null ? '' : s.confidence.toFixed(2)}`,
    },
    { name: 'lost per step', number: true, value: (s) => s.lost_ns_per_step, show: (s) => time(s.lost_ns_per_step) },
    {
      name: 'gain per step',
      number: true,
      value: (s) => s.gain_ns_per_step,
      show: (s) => `${time(s.gain_ns_per_step)} ${interval(s.gain_interval, time)}`,
    },
    { name: 'since step', number: true, value: (s) => s.since_step },
    { name: 'evidence', wrap: true, value: (s) => s.evidence.join('; ') },
    { name: 'to do', wrap: true, value: (s) => s.action },
  ];
  if (report.stragglers.length === 0) return h('p', {}, 'No cause is above the noise floor.');
  return table(columns, report.stragglers, { caption: 'causes', onChoose: (s) => choose(s.ranks[0] ?? null) });
}

const PARTS: [string, string, (r: RankRow) => number][] = [
  ['compute', 'compute', (r) => r.compute_ns],
  ['transfer', 'exposed transfer', (r) => r.exposed_transfer_ns],
  ['wait', 'exposed wait', (r) => r.exposed_wait_ns],
  ['unsplit', 'exposed, not split', (r) => r.exposed_unsplit_ns],
  ['memory', 'exposed copies', (r) => r.exposed_memory_ns],
  ['idle', 'idle', (r) => r.idle_ns],
];

export const legend = (items: [string, string][]) =>
  h('ul', { class: 'legend' }, ...items.map(([kind, name]) => h('li', {}, h('span', { class: `swatch ${kind}` }), name)));

export function partition(page: Page): HTMLElement {
  const rows = page.report.ranks;
  const bar = (r: RankRow) => {
    const div = h('div', {
      class: 'bar',
      role: 'img',
      'aria-label': PARTS.map(([, name, of]) => `${name} ${percent(of(r) / r.span_ns)}`).join(', '),
    });
    for (const [kind, name, of] of PARTS) {
      if (of(r) <= 0) continue;
      const span = h('span', { class: kind, title: `${name} ${time(of(r))}, ${percent(of(r) / r.span_ns)}` });
      span.style.width = `${(100 * of(r)) / r.span_ns}%`;
      div.append(span);
    }
    return div;
  };
  const columns: Column<RankRow>[] = [
    { name: 'rank', number: true, value: (r) => r.rank },
    { name: 'host', value: (r) => r.host },
    { name: 'time', value: (r) => r.compute_ns / r.span_ns, show: bar, about: 'sorts by the part that is compute' },
    ...PARTS.map(([, name, of]): Column<RankRow> => ({
      name,
      number: true,
      value: (r) => of(r) / r.span_ns,
      show: (r) => percent(of(r) / r.span_ns),
    })),
    {
      name: 'overlap',
      number: true,
      value: (r) => r.overlap_fraction,
      show: (r) => percent(r.overlap_fraction),
      about: 'of its communication',
    },
    {
      name: 'caused waiting',
      number: true,
      value: (r) => r.caused_wait_ns,
      show: (r) => time(r.caused_wait_ns),
      about: 'waiting of others that ended when this rank came',
    },
    {
      name: 'gain',
      number: true,
      value: (r) => r.gain_ns_per_step,
      show: (r) =>
        r.gain_ns_per_step == null && r.gain_at_most_ns_per_step != null
          ? `≤ ${time(r.gain_at_most_ns_per_step)}`
          : time(r.gain_ns_per_step),
      about: 'the step gets this much shorter with the rank made typical',
    },
    { name: 'GPU', value: (r) => `${r.device}${r.device_name ? ` ${r.device_name}` : ''}` },
  ];
  return section(
    'partition',
    'What each rank did with its time',
    'Each bar is a rank’s whole time. Waiting on a rank is the fault of another one.',
    legend(PARTS.map(([kind, name]) => [kind, name])),
    table(columns, rows, { caption: 'time of each rank', chosen: (r) => r.rank === chosen(), onChoose: (r) => choose(r.rank) }),
  );
}

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

export function collectives(page: Page): HTMLElement {
  const rows = page.report.collectives.map((c, k) => ({ ...c, skews: page.skews[k] ?? [] }));
  type Row = CollectiveRow & { skews: number[] };
  const bins = Math.max(1, ...rows.map((r) => r.skews.length));
  const ns = (name: string, of: (r: Row) => number | null, about = ''): Column<Row> => ({
    name,
    about,
    number: true,
    value: of,
    show: (r) => time(of(r)),
  });
  const columns: Column<Row>[] = [
    { name: 'group', value: (r) => r.group },
    { name: 'ranks', number: true, value: (r) => r.group_size },
    { name: 'operation', value: (r) => r.op },
    { name: 'count', number: true, value: (r) => r.count, show: (r) => count(r.count) },
    { name: 'bytes', number: true, value: (r) => r.bytes, show: (r) => bytes(r.bytes), about: 'of one rank, over the instances of which they are known' },
    ns('waited', (r) => r.wait_ns, 'summed over members'),
    ns('transferred', (r) => r.transfer_ns, 'summed over members'),
    {
      name: 'skew',
      value: (r) => r.skew_ns.p50,
      show: (r) => (r.skews.length > 0 ? strip(r.skews, bins) : '–'),
      about: 'how far apart the ranks arrived, by instance; all rows on one scale, from 1 us up; sorts by the median',
    },
    ns('median', (r) => r.skew_ns.p50),
    ns('p99', (r) => r.skew_ns.p99),
    ns('most', (r) => r.skew_ns.max),
    {
      name: 'bus GB/s',
      number: true,
      value: (r) => r.busbw_gbps,
      show: (r) => (r.busbw_gbps == null ? '–' : r.busbw_gbps.toFixed(1)),
    },
    {
      name: 'came last most',
      value: (r) => r.last_arrivals[0]?.count ?? null,
      show: (r) =>
        r.last_arrivals
          .slice(0, 3)
          .map((l) => `rank ${l.rank}: ${l.count}`)
          .join(', ') || '–',
    },
  ];
  return section(
    'collectives',
    'Collectives',
    `Skew is the time from the first rank’s arrival to the last one’s${page.report.capture.clock.bound_ns ? `; clocks agree within ${time(page.report.capture.clock.bound_ns)}` : ''}. The strips share one logarithmic scale.`,
    rows.length === 0
      ? h('p', {}, 'No communication between ranks was recorded.')
      : table(columns, rows, {
          caption: 'collectives',
          sort: { column: 5, down: true },
          onChoose: (r) => choose(r.last_arrivals[0]?.rank ?? null),
        }),
  );
}

const cellOf = (value: unknown): Cell =>
  value == null || typeof value === 'number' || typeof value === 'boolean' ? (value as Cell) : String(value);

function shownAs(unit: string, value: Cell): string {
  if (typeof value !== 'number') return value == null ? '–' : typeof value === 'boolean' ? (value ? 'yes' : 'no') : value;
  if (unit === 'ns') return time(value);
  if (unit === 'fraction') return percent(value);
  if (unit === 'bytes') return bytes(value);
  return Number.isInteger(value) ? count(value) : value.toPrecision(4);
}

function generic(
  name: string,
  columns: { name: string; unit: string; meaning: string }[],
  rows: Record<string, unknown>[],
): HTMLElement {
  const kept = columns.filter((c) => rows.some((r) => r[c.name] != null));
  return table(
    kept.map((c): Column<Record<string, unknown>> => ({
      name: c.name.replace(/_(ns|bytes|fraction)$/, '').replaceAll('_', ' '),
      about: c.meaning,
      number: rows.some((r) => typeof r[c.name] === 'number'),
      value: (r) => cellOf(r[c.name]),
      show: (r) => shownAs(c.unit, cellOf(r[c.name])),
    })),
    rows,
    { caption: name },
  );
}

const column = (name: string, unit = '', meaning = '') => ({ name, unit, meaning });

// Tables for the data that have no picture, and every view that has rows.
export function tables(page: Page): HTMLElement {
  const { report } = page;
  const part = (title: string, body: () => HTMLElement) => {
    const details = h('details', {}, h('summary', {}, title));
    details.addEventListener('toggle', () => {
      if (details.open && details.childElementCount === 1) details.append(body());
    });
    return details;
  };
  const fixes = report.fixes.map((f) => ({
    fixed: f.entries
      .map(
        (e) => `${report.stragglers[e]?.cause} of ${report.stragglers[e]?.kind} ${rankList(report.stragglers[e]?.ranks ?? [])}`,
      )
      .join(' and '),
    gain_ns: f.gain_ns_per_step,
    from_ns: f.gain_interval?.[0],
    to_ns: f.gain_interval?.[1],
  }));
  const steps = page.steps.numbers.map((step, k) => ({
    step,
    duration_ns: page.steps.duration[k],
    parallel_fraction: Number.isNaN(page.steps.parallel[k]) ? null : page.steps.parallel[k],
  }));
  const breakdown = ['kernel', 'communication', 'memcpy', 'memset', 'runtime', 'dataloader', 'cpu_exec', 'other'];
  const parts: HTMLElement[] = [];
  const add = (name: string, columns: ReturnType<typeof column>[], rows: Record<string, unknown>[]) => {
    if (rows.length > 0) parts.push(part(`${name} (${rows.length})`, () => generic(name, columns, rows)));
  };
  for (const view of page.views) {
    const rows = view.table.rows;
    parts.push(
      part(`${view.table.view}: ${view.about} (${rows.length})`, () =>
        h('div', {}, ...view.table.notes.map((n) => h('p', {}, n)), generic(view.table.view, view.table.columns, rows)),
      ),
    );
  }
  add('fixes', [column('fixed'), column('gain_ns', 'ns'), column('from_ns', 'ns'), column('to_ns', 'ns')], fixes);
  add(
    'steps',
    [column('step'), column('duration_ns', 'ns'), column('parallel_fraction', 'fraction', 'parallel efficiency')],
    steps,
  );
  add('mean step by what went on', [column('rank'), ...breakdown.map((b) => column(`${b}_ns`, 'ns'))], report.step_breakdown);
  add(
    'losses',
    [column('rank'), column('stage'), column('kind'), column('records'), column('reason')],
    report.capture.losses,
  );
  add(
    'clocks',
    [column('host'), column('offset_ns', 'ns'), column('drift_ppm'), column('bound_ns', 'ns'), column('method')],
    report.capture.clock.hosts,
  );
  parts.push(part('the report as text', () => h('pre', { tabindex: '0' }, page.text)));
  return section('tables', 'Tables', 'Click a head to sort, type to search.', ...parts);
}
