// The modules of the model as a tree, each with its time on the devices, or on the hosts if none was launched there.
import type { Page } from './data';
import { h, section } from './dom';
import { count, percent, time } from './format';

interface Module {
  name: string;
  calls: number | null;
  host: number;
  device: number;
  inner: Module[];
}

// Modules deeper than this are closed at first.
const OPEN_DEPTH = 2;

const rowsOf = (page: Page) => page.views.find((v) => v.table.view === 'modules')?.table.rows ?? [];

export const hasModules = (page: Page) => rowsOf(page).length > 0;

// The table has each module before those inside it.
function treeOf(page: Page): Module[] {
  const roots: Module[] = [];
  const path: Module[] = [];
  for (const row of rowsOf(page)) {
    const depth = Number(row.depth ?? 0);
    const module: Module = {
      name: String(row.name ?? '–'),
      calls: typeof row.occurrences === 'number' ? row.occurrences : null,
      host: Number(row.host_ns ?? 0),
      device: Number(row.device_ns ?? 0),
      inner: [],
    };
    path.length = Math.min(path.length, depth);
    (path[path.length - 1]?.inner ?? roots).push(module);
    path.push(module);
  }
  return roots;
}

function shown(module: Module, depth: number, whole: number, of: (m: Module) => number): HTMLElement {
  const bar = h('span', { class: 'share', 'aria-hidden': 'true' }, h('span', {}));
  (bar.firstElementChild as HTMLElement).style.width = `${Math.min(100, (100 * of(module)) / whole)}%`;
  const line = [
    h(
      'span',
      { class: 'name' },
      module.name,
      module.calls == null ? '' : h('small', {}, ` ${count(module.calls)} ${module.calls === 1 ? 'call' : 'calls'}`),
    ),
    h('span', { class: 'cost' }, time(of(module)), h('small', {}, ` ${percent(of(module) / whole)}`)),
    bar,
  ];
  if (module.inner.length === 0) return h('li', {}, h('div', { class: 'module' }, ...line));
  const details = h(
    'details',
    {},
    h('summary', { class: 'module' }, ...line),
    h('ul', {}, ...module.inner.map((m) => shown(m, depth + 1, whole, of))),
  );
  details.open = depth < OPEN_DEPTH;
  return h('li', {}, details);
}

export function modulesPart(page: Page): HTMLElement {
  const roots = treeOf(page);
  const notes = page.views.find((v) => v.table.view === 'modules')?.table.notes ?? [];
  const device = roots.some((m) => m.device > 0);
  const of = (m: Module) => (device ? m.device : m.host);
  const whole = Math.max(
    1,
    roots.reduce((sum, m) => sum + of(m), 0),
  );
  return section(
    'modules',
    'Modules',
    `Time ${device ? 'on the devices' : 'on the hosts'} of each module with those inside it, as a sum over all calls and ranks. The backward pass runs outside all modules.`,
    ...notes.map((n) => h('p', { class: 'count' }, n)),
    h('ul', { class: 'modules' }, ...roots.map((m) => shown(m, 0, whole, of))),
  );
}
