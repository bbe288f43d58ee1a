// The first screen: the verdict, the action, the figures behind them, and what weakens them.
import type { Page } from './data';
import { h } from './dom';
import { count, interval, percent, time } from './format';
import { evidenceList } from './findings';
import { type Term, term } from './glossary';
import { weaknesses } from './quality';

// The part of the headline that is a word of its own. Longer ones come first.
const HEADLINES: [string, string][] = [
  ['NO STRAGGLER FOUND', 'warn'],
  ['TOO FEW STEPS', 'warn'],
  ['UNEXPLAINED', 'warn'],
  ['STRAGGLER', 'bad'],
  ['SLOW JOB', 'bad'],
  ['HEALTHY', 'good'],
];
const MOST_ACTIONS = 3;
// A headline of more letters is set smaller, so that the action stays on the first screen.
const LONG = 220;

function headline(text: string): { words: string; looks: string; rest: string } {
  const partial = text.startsWith('PARTIAL ') ? 'PARTIAL ' : '';
  const rest = text.slice(partial.length);
  const found = HEADLINES.find(([words]) => rest.startsWith(words));
  if (!found) return { words: '', looks: 'warn', rest: text };
  return { words: partial + found[0], looks: found[1], rest: rest.slice(found[0].length) };
}

// Explains the brackets of a sentence.
const intervalsIn = (text: string) =>
  text.split(/(\[[^\]]+\])/).map((part) => (part.startsWith('[') ? term('interval', part) : part));

function figures(page: Page): HTMLElement {
  const { report } = page;
  const s = report.slowdown;
  const best = report.stragglers[0];
  const leading = report.shared_losses.findIndex((_, k) => page.words.shared_losses[k].leads);
  const figure = (name: string | Node, value: string, beside: string | Node) =>
    h('div', { class: 'figure' }, h('dt', {}, name), h('dd', {}, value, h('small', {}, beside)));
  const within = (range: ArrayLike<number> | null, text: (n: number) => string): string | Node =>
    range ? term('interval', interval(range, text)) : 'no interval';
  const about = (name: Term, before: string) => h('span', {}, before, term(name));
  return h(
    'dl',
    { class: 'figures' },
    figure('Step', time(s.step_ns), `${count(report.capture.steps)} ${report.capture.steps === 1 ? 'step' : 'steps'} used`),
    figure(term('ideal step', 'Ideal step'), time(s.ideal_step_ns), 'every rank typical'),
    figure(
      'Slowdown',
      s.ratio == null ? '–' : `${s.ratio.toFixed(3)}x`,
      within(s.interval, (n) => n.toFixed(3)),
    ),
    figure(
      'Lost per step',
      time(s.lost_ns_per_step),
      s.noise_floor_ns_per_step == null
        ? about('noise floor', 'fewer than 3 steps: no ')
        : h('span', {}, term('noise floor'), ` ${time(s.noise_floor_ns_per_step)}`),
    ),
    leading >= 0 &&
      figure(
        'All ranks lose per step',
        time(report.shared_losses[leading].lost_ns_per_step),
        `${percent(report.shared_losses[leading].share_of_step)}: ${page.words.shared_losses[leading].name}`,
      ),
    best && figure(term('gain', 'Fixing the first gains'), time(best.gain_ns_per_step), within(best.gain_interval, time)),
    best &&
      figure(
        term('confidence', 'Confidence'),
        best.confidence == null ? '–' : percent(best.confidence, 0),
        `verdict: ${best.verdict}`,
      ),
  );
}

export function verdict(page: Page): HTMLElement {
  const { words, looks, rest } = headline(page.verdict);
  const best = page.report.stragglers[0];
  const leading = page.report.shared_losses.findIndex((_, k) => page.words.shared_losses[k].leads);
  const weak = weaknesses(page);
  // An action that can wait comes after the actions that cannot.
  const actions = page.words.actions.slice(0, MOST_ACTIONS);
  const evidence = leading >= 0 ? page.report.shared_losses[leading].evidence : best ? best.evidence : page.report.not_the_cause;
  return h(
    'section',
    { class: `card verdict ${looks}`, id: 'verdict', 'aria-label': 'Verdict' },
    h(
      'p',
      { class: `sentence ${page.verdict.length > LONG ? 'long' : ''}` },
      words && h('span', { class: 'word' }, words),
      ...intervalsIn(rest),
    ),
    ...actions.map((a) => h('p', { class: 'action' }, h('strong', {}, a.can_wait ? 'Can wait: ' : 'Do: '), a.text)),
    actions.length === 0 && looks === 'good' && h('p', { class: 'action' }, h('strong', {}, 'Do: '), 'nothing. '),
    h('p', { class: 'page' }, h('strong', {}, 'Page: '), page.words.page),
    weak.length > 0 &&
      h(
        'div',
        { class: 'weak', role: 'note' },
        h('strong', {}, 'What weakens this verdict'),
        h('ul', {}, ...weak.map((w) => h('li', {}, w))),
        h('a', { href: '#quality' }, 'all about the data'),
      ),
    figures(page),
    leading < 0 && best && h('p', {}, `Evidence of ${page.words.stragglers[0].name}:`),
    evidenceList(evidence),
  );
}
