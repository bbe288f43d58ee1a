// Formats numbers for people: three digits and a suitable unit. An unknown value is a dash, never 0.
import type { Known } from './report_types';

const UNITS: [number, string][] = [
  [1e9, 's'],
  [1e6, 'ms'],
  [1e3, 'us'],
  [1, 'ns'],
];

const digits = (value: number) => {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
};

export function time(ns: Known | undefined): string {
  if (ns == null || Number.isNaN(ns)) return '–';
  if (ns === 0) return '0';
  const [size, unit] = UNITS.find(([s]) => Math.abs(ns) >= s) ?? [1, 'ns'];
  return `${unit === 'ns' ? Math.round(ns) : digits(ns / size)} ${unit}`;
}

export const percent = (part: Known | undefined, places = 1) =>
  part == null || Number.isNaN(part) ? '–' : `${(100 * part).toFixed(places)}%`;

export function bytes(n: Known | undefined): string {
  if (n == null) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let k = 0;
  while (Math.abs(n) >= 1024 && k < units.length - 1) ((n /= 1024), ++k);
  return `${k === 0 ? n : digits(n)} ${units[k]}`;
}

// Returns a kernel's name without its namespaces, template arguments and parameters.
export function shortName(name: string): string {
  const plain = name.replace(/\(anonymous namespace\)::/g, '').replace(/^(void|auto) /, '');
  // Copies have their kind in brackets: "Memcpy HtoD (Pageable -> Device)".
  const end = plain.search(/ ?[<(]/);
  const short = (end > 0 ? plain.slice(0, end) : plain).split('::').pop() || plain;
  return short.replace(/^nccl(Dev)?Kernel_?/, '') || short;
}

export const count = (n: Known | undefined) => (n == null ? '–' : n.toLocaleString('en'));
export const interval = (range: ArrayLike<number> | null, text: (n: number) => string) =>
  range ? `[${text(range[0])} to ${text(range[1])}]` : '';

// Returns a text such as "0-3, 7". Long lists are cut.
export function ranks(list: number[], most = 8): string {
  const parts: string[] = [];
  for (let i = 0; i < list.length;) {
    let j = i;
    while (j + 1 < list.length && list[j + 1] === list[j] + 1) ++j;
    parts.push(i === j ? `${list[i]}` : `${list[i]}-${list[j]}`);
    i = j + 1;
  }
  return parts.length > most ? `${parts.slice(0, most).join(', ')} and more` : parts.join(', ');
}

// The distance of ticks: 1, 2 or 5 times a power of ten.
export function tickDistance(range: number, most: number): number {
  const least = range / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5, 10].find((m) => m * power >= least) ?? 10);
}
