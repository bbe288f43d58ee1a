// Tables for the data that have no picture, and every view that has rows.
import type { Page } from './data';
import { h, section } from './dom';
import { bytes, count, percent, ranks as rankList, time } from './format';
import { type Cell, type Column, table } from './table';

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
  add('losses', [column('rank'), column('stage'), column('kind'), column('records'), column('reason')], report.capture.losses);
  add(
    'clocks',
    [column('host'), column('offset_ns', 'ns'), column('drift_ppm'), column('bound_ns', 'ns'), column('method')],
    report.capture.clock.hosts,
  );
  parts.push(part('the report as text', () => h('pre', { tabindex: '0' }, page.text)));
  return section('tables', 'Tables', 'Select a name to open its table. A head sorts it.', ...parts);
}
