// Tables that are sorted by a click on a column's head and filtered by a search box. Only visible rows are in
// the document.
import { h } from './dom';
import { GLOSSARY, type Term } from './glossary';

export type Cell = string | number | boolean | null;
export interface Column<R> {
  name: string;
  about?: string;
  term?: Term; // its definition is the column's `about`
  number?: boolean;
  wrap?: boolean;
  value: (row: R) => Cell; // for sorting and searching
  show?: (row: R) => string | HTMLElement; // displayed text; the default is the value
}
export interface TableOptions<R> {
  caption: string;
  sort?: { column: number; down: boolean };
  chosen?: (row: R) => boolean;
  onChoose?: (row: R) => void;
  rowsOnPaper?: number; // the most rows that are printed
  pinned?: (row: R) => boolean; // these rows stay on top in every order
}

// A table with more rows keeps only visible ones in the document.
const MOST_ROWS_AT_ONCE = 100;
const USUAL_ROW_HEIGHT = 31;
const ROWS_AROUND = 8;
// A printed table has no more rows, unless its options say so.
const MOST_ROWS_ON_PAPER = 40;

// Created once, because localeCompare would create one for every comparison.
const IN_ORDER = new Intl.Collator(undefined, { numeric: true });

const textOf = (cell: Cell) => (cell == null ? '–' : typeof cell === 'boolean' ? (cell ? 'yes' : 'no') : String(cell));

// The search ignores digits that the page does not show.
const searched = (cell: Cell) => (typeof cell === 'number' && !Number.isInteger(cell) ? '' : textOf(cell));

export interface LiveTable<R> {
  element: HTMLElement;
  // Replaces the rows. The reader's order, search and scroll position stay.
  update(rows: R[]): void;
}

export const table = <R>(columns: Column<R>[], rows: R[], options: TableOptions<R>): HTMLElement =>
  liveTable(columns, rows, options).element;

export function liveTable<R>(columns: Column<R>[], rows: R[], options: TableOptions<R>): LiveTable<R> {
  let sort = options.sort ?? null;
  let shown = rows;
  let first = -1;
  let rowHeight = USUAL_ROW_HEIGHT;
  const body = h('tbody');
  const head = h('tr');
  const element = h('table', {}, h('caption', { hidden: '' }, options.caption), h('thead', {}, head), body);
  const scroll = h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': options.caption }, element);
  const status = h('span', { class: 'count', role: 'status' });
  const search = h('input', { type: 'search', placeholder: 'Search', 'aria-label': `Search in ${options.caption}` });
  const haystack = new Map<R, string>();
  const words = (row: R) => {
    let text = haystack.get(row);
    if (text === undefined)
      haystack.set(
        row,
        (text = columns
          .map((c) => searched(c.value(row)))
          .join('\n')
          .toLowerCase()),
      );
    return text;
  };

  const rowsOf = new WeakMap<HTMLTableRowElement, R>();
  const mark = () => {
    if (!options.chosen) return;
    for (const tr of body.rows) {
      const row = rowsOf.get(tr);
      if (row) tr.classList.toggle('chosen', options.chosen(row));
    }
  };
  const rowOf = (row: R) => {
    const tr = h('tr', options.pinned?.(row) ? { class: 'pinned' } : {});
    if (options.chosen) rowsOf.set(tr, row);
    for (const c of columns) {
      const content = c.show ? c.show(row) : textOf(c.value(row));
      const td = h('td', { class: c.number ? 'number' : c.wrap && shown.length <= MOST_ROWS_AT_ONCE ? 'wrap' : 'text' }, content);
      if (!c.number && typeof content === 'string' && content.length > 40) td.title = content;
      tr.append(td);
    }
    if (options.onChoose) tr.addEventListener('click', () => options.onChoose!(row));
    return tr;
  };
  const space = (height: number) => {
    const td = h('td', { colspan: String(columns.length) });
    td.style.height = `${height}px`;
    td.style.padding = '0';
    return h('tr', { 'aria-hidden': 'true' }, td);
  };
  const fill = (again: boolean) => {
    rowHeight = body.querySelector<HTMLElement>('tr:not([aria-hidden])')?.offsetHeight || rowHeight;
    const all = shown.length <= MOST_ROWS_AT_ONCE;
    const from = all ? 0 : Math.max(0, Math.floor(scroll.scrollTop / rowHeight) - ROWS_AROUND);
    if (!again && Math.abs(from - first) < ROWS_AROUND / 2) return;
    first = from;
    const to = all ? shown.length : Math.min(shown.length, from + Math.ceil(scroll.clientHeight / rowHeight) + 3 * ROWS_AROUND);
    const parts: HTMLElement[] = shown.slice(from, to).map(rowOf);
    if (from > 0) parts.unshift(space(from * rowHeight));
    if (to < shown.length) parts.push(space((shown.length - to) * rowHeight));
    body.replaceChildren(...parts);
    mark();
  };
  const arrange = (top = true) => {
    const wanted = search.value.trim().toLowerCase();
    shown = wanted ? rows.filter((row) => words(row).includes(wanted)) : rows.slice();
    if (sort) {
      const value = columns[sort.column].value;
      const sign = sort.down ? -1 : 1;
      shown.sort((a, b) => {
        const x = value(a),
          y = value(b);
        if (x == null || y == null) return x == null ? (y == null ? 0 : 1) : -1; // unknown values come last in both directions
        return sign * (typeof x === 'string' ? IN_ORDER.compare(x, String(y)) : Number(x) - Number(y));
      });
    }
    if (options.pinned) {
      const pinned = options.pinned;
      shown = [...shown.filter(pinned), ...shown.filter((row) => !pinned(row))];
    }
    if (top) scroll.scrollTop = 0;
    fill(true);
    heads.forEach((th, k) =>
      th.setAttribute('aria-sort', sort?.column === k ? (sort.down ? 'descending' : 'ascending') : 'none'),
    );
    status.textContent =
      shown.length === rows.length
        ? `${rows.length} ${rows.length === 1 ? 'row' : 'rows'}`
        : `${shown.length} of ${rows.length} rows`;
  };
  const heads = columns.map((c, k) => {
    const button = h('button', { type: 'button' }, c.name);
    const about = c.term ? GLOSSARY[c.term] : c.about;
    if (about) button.dataset.about = about;
    button.addEventListener('click', () => {
      sort = { column: k, down: sort?.column === k ? !sort.down : c.number === true };
      arrange();
    });
    const th = h('th', { scope: 'col', 'aria-sort': 'none', class: c.number ? 'number' : '' }, button);
    head.append(th);
    return th;
  });
  search.addEventListener('input', () => arrange());
  scroll.addEventListener('scroll', () => fill(false), { passive: true });
  if (options.chosen) addEventListener('rankchosen', mark);
  const cut = h('p', { class: 'on-paper' });
  addEventListener('printing', () => {
    const most = options.rowsOnPaper ?? MOST_ROWS_ON_PAPER;
    const rest = shown.length - most;
    cut.textContent = rest > 0 ? `${rest} further rows are in the file itself.` : '';
    body.replaceChildren(...shown.slice(0, most).map(rowOf));
  });
  addEventListener('afterprint', () => fill(true));
  arrange();
  const update = (others: R[]) => {
    rows = others;
    haystack.clear();
    // A link keeps the focus although its row is created again.
    const link = document.activeElement?.closest('tbody') === body ? document.activeElement.getAttribute('href') : null;
    arrange(false);
    if (link) [...body.querySelectorAll('a')].find((a) => a.getAttribute('href') === link)?.focus({ preventScroll: true });
  };
  return { element: h('div', {}, h('div', { class: 'tools' }, search, status), scroll, cut), update };
}
