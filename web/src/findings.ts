// The causes in words: a straggler or a loss of all ranks with its cost, its evidence and its action.
import type { Page } from './data';
import { choose, h } from './dom';
import { interval, percent, ranks as rankList, time } from './format';
import { term } from './glossary';
import type { StragglerRow } from './report_types';
import { table } from './table';

const MOST_SHOWN = 8;

// Replaces figures of statisticians by words. The text report also has a sum of waiting, for which the page has
// the mean.
export const plain = (text: string) =>
  text
    .replace(/\(z (-?[\d.]+)\)/g, '($1 times the usual spread)')
    .replace(/^the others together waited .+ per step for (it|them); last/, 'the others waited for $1: last');

export const evidenceList = (evidence: string[]) =>
  evidence.length > 0 && h('ul', {}, ...evidence.map((e) => h('li', {}, plain(e))));

// The name of a straggler without its GPU, for narrow places.
export const shortStraggler = (page: Page, k: number) => {
  const s = page.report.stragglers[k];
  return s.kind === 'rank' ? `rank ${rankList(s.ranks, 3)}` : page.words.stragglers[k].name;
};

// The ranks of the stragglers, largest cost first. Causes that belong to the whole job name none.
export function culprits(page: Page): number[] {
  const all = page.report.ranks.length;
  return [...new Set(page.report.stragglers.flatMap((s) => (s.kind === 'job' || s.ranks.length * 2 > all ? [] : s.ranks)))];
}

// The waiting for each rank: mean per waiting rank and step. Without a replay, all other ranks count as waiting.
export function waitingFor(page: Page): Map<number, number> {
  const { waiting, ranks, capture } = page.report;
  if (waiting)
    return new Map(waiting.causers.flatMap((c) => (c.mean_wait_ns_per_step == null ? [] : [[c.rank, c.mean_wait_ns_per_step]])));
  const waits = Math.max(1, capture.steps) * Math.max(1, ranks.length - 1);
  return new Map(ranks.map((r) => [r.rank, r.caused_wait_ns / waits]));
}

const perStep = (step: number | null, ns: number | null) =>
  `${time(ns)}${step && ns != null ? ` (${percent(ns / step)} of the step)` : ''}`;

function straggler(page: Page, s: StragglerRow, k: number): HTMLElement {
  const step = page.report.slowdown.step_ns;
  const words = page.words.stragglers[k];
  const waited = waitingFor(page);
  const button = s.kind !== 'job' && s.ranks.length > 0 && h('button', { type: 'button' }, `mark rank ${s.ranks[0]}`);
  if (button) button.addEventListener('click', () => choose(s.ranks[0]));
  return h(
    'article',
    { class: 'finding' },
    h('h3', {}, `${k + 1}. ${words.name}: ${words.cause}`),
    h(
      'p',
      { class: 'facts' },
      h('span', { class: `chip ${s.verdict}` }, s.verdict),
      s.confidence != null && h('span', {}, term('confidence'), ` ${percent(s.confidence, 0)}`),
      h('span', {}, `costs ${perStep(step, s.lost_ns_per_step)}`),
      s.gain_ns_per_step != null &&
        h('span', {}, term('gain', 'fixing it gains'), ` ${time(s.gain_ns_per_step)} ${interval(s.gain_interval, time)}`),
      s.ranks.length === 1 &&
        waited.has(s.ranks[0]) &&
        h('span', {}, term('waiting for a rank', 'waiting for it'), ` ${time(waited.get(s.ranks[0]))}`),
      s.since_step != null && h('span', {}, `since step ${s.since_step}${s.until_step == null ? '' : ` until ${s.until_step}`}`),
      button,
    ),
    evidenceList(s.evidence),
    s.action && h('p', { class: 'action' }, h('strong', {}, 'Do: '), s.action),
  );
}

export function findings(page: Page): HTMLElement {
  const rows = page.report.stragglers;
  const more = rows.slice(MOST_SHOWN);
  return h(
    'div',
    { class: 'findings' },
    rows.length === 0 && h('p', {}, 'No cause of a single rank, host, stage or link is above the ', term('noise floor'), '.'),
    ...rows.slice(0, MOST_SHOWN).map((s, k) => straggler(page, s, k)),
    more.length > 0 && h('h3', {}, `${more.length} smaller causes`),
    more.length > 0 &&
      table<StragglerRow>(
        [
          {
            name: 'cause',
            wrap: true,
            value: (s) => `${page.words.stragglers[rows.indexOf(s)].name}: ${page.words.stragglers[rows.indexOf(s)].cause}`,
          },
          { name: 'costs per step', number: true, value: (s) => s.lost_ns_per_step, show: (s) => time(s.lost_ns_per_step) },
          { name: 'do', wrap: true, value: (s) => s.action },
        ],
        more,
        { caption: 'smaller causes', onChoose: (s) => choose(s.ranks[0] ?? null) },
      ),
  );
}

export function sharedLosses(page: Page): HTMLElement | false {
  const rows = page.report.shared_losses;
  if (rows.length === 0) return false;
  const one = page.report.ranks.length === 1;
  return h(
    'div',
    { class: 'findings' },
    h('h3', {}, one ? 'Lost by this rank without others’ fault' : 'Lost by all ranks alike'),
    h('p', { class: 'about' }, 'These losses are part of the ideal step, because no rank differs from the others in them.'),
    ...rows.map((s, k) =>
      h(
        'article',
        { class: 'finding' },
        h(
          'h4',
          {},
          `${page.words.shared_losses[k].name}: ${time(s.lost_ns_per_step)} per step, ${percent(s.share_of_step)} of it`,
        ),
        evidenceList(s.evidence),
        s.action &&
          h('p', { class: 'action' }, h('strong', {}, page.words.shared_losses[k].leads ? 'Do: ' : 'Can wait: '), s.action),
      ),
    ),
  );
}
