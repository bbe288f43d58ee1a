// The division of each rank's time, as a table with a bar per rank.
import type { Page } from './data';
import { choose, chosen, h, section } from './dom';
import { culprits, waitingFor } from './findings';
import { percent, time } from './format';
import { type Term, term } from './glossary';
import type { RankRow } from './report_types';
import { type Column, table } from './table';

const PARTS: [string, Term, (r: RankRow) => number][] = [
  ['compute', 'compute', (r) => r.compute_ns],
  ['transfer', 'transfer', (r) => r.exposed_transfer_ns],
  ['wait', 'waiting for others', (r) => r.exposed_wait_ns],
  ['unsplit', 'not split', (r) => r.exposed_unsplit_ns],
  ['memory', 'copies', (r) => r.exposed_memory_ns],
  ['idle', 'idle', (r) => r.idle_ns],
];
// More culprits would leave no room for the other ranks.
const MOST_PINNED = 8;

export const legend = (items: [string, string | Node][]) =>
  h('ul', { class: 'legend' }, ...items.map(([kind, name]) => h('li', {}, h('span', { class: `swatch ${kind}` }), name)));

function bar(r: RankRow): HTMLElement {
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
}

export function partition(page: Page): HTMLElement {
  const rows = page.report.ranks;
  const guilty = new Set(culprits(page).slice(0, MOST_PINNED));
  const waited = waitingFor(page);
  const shown = PARTS.filter(([, , of]) => rows.some((r) => of(r) > 0));
  const gain = (r: RankRow) => r.gain_ns_per_step ?? r.gain_at_most_ns_per_step;
  const columns: Column<RankRow>[] = [
    {
      name: 'rank',
      number: true,
      value: (r) => r.rank,
      show: (r) =>
        guilty.has(r.rank) ? h('span', { class: 'culprit', title: 'named in the verdict' }, String(r.rank)) : String(r.rank),
    },
    { name: 'host', value: (r) => r.host },
    { name: 'time', value: (r) => r.compute_ns / r.span_ns, show: bar, about: 'sorts by the part that is compute' },
    ...shown.map(([kind, name, of]): Column<RankRow> => ({
      name: kind === 'wait' ? 'waiting' : name,
      number: true,
      term: name,
      value: (r) => of(r) / r.span_ns,
      show: (r) => percent(of(r) / r.span_ns),
    })),
    {
      name: 'overlap',
      number: true,
      term: 'overlap',
      value: (r) => r.overlap_fraction,
      show: (r) => percent(r.overlap_fraction),
    },
    {
      name: 'waiting for it',
      number: true,
      term: 'waiting for a rank',
      value: (r) => waited.get(r.rank) ?? null,
      show: (r) => time(waited.get(r.rank)),
    },
    ...(rows.some((r) => gain(r) != null)
      ? [
          {
            name: 'gain',
            number: true,
            term: 'gain',
            value: gain,
            show: (r) => `${r.gain_ns_per_step == null && r.gain_at_most_ns_per_step != null ? '≤ ' : ''}${time(gain(r))}`,
          } as Column<RankRow>,
        ]
      : []),
    {
      name: 'GPU',
      value: (r) => `${r.device}${r.device_name ? ` ${r.device_name}` : ''}`,
      show: (r) => {
        const cell = h('span', {}, String(r.device));
        cell.title = r.device_name ?? '';
        return cell;
      },
      about: 'number in its process; the model is in the hint of the cell',
    },
  ];
  return section(
    'partition',
    'What each rank did with its time',
    `Each bar is a rank’s whole time. A rank that waits is not at fault: it waits for another one.${guilty.size > 0 ? ' Ranks that the verdict names are on top.' : ''}`,
    legend(shown.map(([kind, name]) => [kind, term(name)])),
    table(columns, rows, {
      caption: 'time of each rank',
      chosen: (r) => r.rank === chosen(),
      onChoose: (r) => choose(r.rank),
      pinned: (r) => guilty.has(r.rank),
    }),
  );
}
