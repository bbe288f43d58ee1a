// Terms of the page with their definitions, which the page shows on hover and focus, and as a list at its end. A
// test compares them with docs/glossary.md.
import { h } from './dom';

export const GLOSSARY = {
  'ideal step': 'The step in a replay with every unit at its class’s median. Lost time is the observed step minus this one.',
  'noise floor': 'The 99th percentile of the largest excess when all ranks are alike. No entry below it is listed.',
  gain: 'The time by which a step gets shorter with one fix.',
  interval: 'The range in brackets: the 95 % interval of the number before it, by resampling the steps.',
  confidence: 'The probability that fixing the entry gains more than the noise floor.',
  'waiting for a rank':
    'The time that others wait for a rank beyond the waiting of a typical job: mean per waiting rank and step. A sum over ranks is called a sum.',
  'passed on': 'The part of the waiting for a rank that reached others through ranks that waited for it. The rest is direct.',
  rank: 'One GPU process of a job: its place in the job’s world, from 0. A rank with several devices has an entry for each.',
  compute: 'Time with compute kernels on the device.',
  transfer:
    'The part of a collective on a rank after its last partner came. Here only the part beside which no compute kernel runs.',
  'waiting for others':
    'The part of a collective on a rank until its last partner came. Here only the part beside which no compute kernel runs.',
  'not split': 'Communication whose waiting cannot be separated from its transfer.',
  copies: 'Time with copies or sets beside which no kernel runs.',
  idle: 'Time of the span without activity.',
  overlap: 'Time with both compute and communication, as a share of the communication.',
  collective: 'One communication kernel of one rank, with what is known of it.',
  group: 'Ranks that communicate as one, with a list of members. A group is stated by the source, assumed, or inferred.',
  skew: 'The latest minus the earliest start of an instance of a collective, on the job’s clock.',
  'bus bandwidth':
    'The bytes of a collective over its transfer time, times a factor of its operation, as in nccl-tests. It is comparable with the speed of a link.',
  'usual spread': 'The variation among the ranks that do the same work, as a standard deviation; z in the text report.',
} as const;

export type Term = keyof typeof GLOSSARY;

// Returns a term with its definition. A tap or the keyboard's focus shows it too.
export function term(name: Term, shown: string = name): HTMLElement {
  return h('dfn', { class: 'term', tabindex: '0', 'data-about': GLOSSARY[name] }, shown);
}

export function glossaryPart(): HTMLElement {
  return h(
    'section',
    { class: 'card', id: 'terms', 'aria-labelledby': 'terms-title' },
    h('h2', { id: 'terms-title' }, 'Terms'),
    h('dl', { class: 'terms' }, ...Object.entries(GLOSSARY).flatMap(([name, about]) => [h('dt', {}, name), h('dd', {}, about)])),
  );
}
