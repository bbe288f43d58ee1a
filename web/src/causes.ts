// The part about causes: a picture of what lengthens the step, then each cause with its evidence and action.
import type { Page } from './data';
import { h, section } from './dom';
import { findings, plain, sharedLosses } from './findings';
import { waterfall } from './waterfall';

export function causesPart(page: Page): HTMLElement {
  const { report, words } = page;
  const shared = sharedLosses(page);
  const sharedLeads = words.shared_losses.some((s) => s.leads);
  return section(
    'causes',
    'Causes',
    'What lengthens the step, from the step with every rank typical to the one observed. The parts add up.',
    sharedLeads && shared,
    waterfall(page),
    findings(page),
    !sharedLeads && shared,
    report.not_the_cause.length > 0 && h('h3', {}, 'Not the cause'),
    report.not_the_cause.length > 0 && h('ul', {}, ...report.not_the_cause.map((r) => h('li', {}, plain(r)))),
  );
}
