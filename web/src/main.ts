import { readPage, type Page } from './data';
import { h } from './dom';
import { time } from './format';
import { causesPart } from './causes';
import { collectives } from './collectives';
import { flamePart } from './flame';
import { glossaryPart } from './glossary';
import { heatmap } from './heatmap';
import { hints } from './hint';
import { memoryPart } from './memory';
import { hasModules, modulesPart } from './modules';
import { preparePrinting } from './print';
import { qualityPart } from './quality';
import { partition } from './ranks';
import { seriesPart } from './series';
import { tables } from './tables';
import { themeButton } from './theme';
import { timelinePart } from './timeline';
import { verdict } from './verdict';
import { waitingPart } from './waiting';

interface Part {
  id: string;
  name: string;
  make: (page: Page) => HTMLElement;
  exists?: (page: Page) => boolean; // false: the capture has no data for it
}

const PARTS: Part[] = [
  { id: 'causes', name: 'Causes', make: causesPart },
  { id: 'heat', name: 'Steps × ranks', make: heatmap },
  { id: 'partition', name: 'Ranks', make: partition },
  { id: 'waiting', name: 'Waiting', make: waitingPart },
  { id: 'timeline', name: 'Timeline', make: timelinePart },
  { id: 'collectives', name: 'Collectives', make: collectives },
  { id: 'series', name: 'Over time', make: seriesPart },
  { id: 'flame', name: 'Flame graph', make: flamePart, exists: (page) => page.flames.length > 0 },
  { id: 'memory', name: 'Memory', make: memoryPart, exists: (page) => page.memory.length > 0 },
  { id: 'modules', name: 'Modules', make: modulesPart, exists: hasModules },
  { id: 'tables', name: 'Tables', make: tables },
  { id: 'quality', name: 'Quality', make: qualityPart },
  { id: 'terms', name: 'Terms', make: glossaryPart },
];

function about(page: Page): string {
  const c = page.report.capture;
  const start = c.start_unix_ns ? new Date(c.start_unix_ns / 1e6).toISOString().slice(0, 19).replace('T', ' ') + ' UTC' : '';
  const n = page.steps.numbers;
  return [
    `job ${c.job || '(unnamed)'}`,
    `${page.report.ranks.length} ${page.report.ranks.length === 1 ? 'rank' : 'ranks'}${c.named_hosts > 0 ? ` on ${c.hosts} ${c.hosts === 1 ? 'host' : 'hosts'}` : ', hosts not named'}`,
    n.length > 0 && `steps ${n[0]}–${n[n.length - 1]}`,
    c.duration_ns && `window ${time(c.duration_ns)}`,
    start,
    page.source,
  ]
    .filter(Boolean)
    .join(' · ');
}

async function main(): Promise<void> {
  const app = document.getElementById('app')!;
  let page: Page;
  try {
    page = await readPage();
  } catch (error) {
    app.replaceChildren(
      h(
        'p',
        { role: 'alert' },
        `This report's data could not be read: ${error}. Was the file cut short? Make it again: lockstep report CAPTURE --format html -o report.html`,
      ),
    );
    return;
  }
  document.title = `Lockstep: ${page.verdict.slice(0, 80)}`;
  const theme = themeButton();
  const parts = PARTS.filter(({ exists }) => !exists || exists(page));
  const content = h('main', { id: 'content' });
  app.replaceChildren(
    h('a', { href: '#content', class: 'skip' }, 'To the report'),
    h('header', { class: 'top' }, h('h1', {}, 'Lockstep report'), h('span', { class: 'job' }, about(page)), theme),
    h(
      'nav',
      { class: 'parts', 'aria-label': 'Parts of the report' },
      h('ul', {}, ...parts.map(({ id, name }) => h('li', {}, h('a', { href: `#${id}` }, name)))),
    ),
    content,
    h(
      'footer',
      {},
      h('p', {}, `Made by lockstep ${page.version}. The file holds all its data and loads nothing from a network.`),
    ),
    hints(),
  );
  preparePrinting();
  content.append(verdict(page));
  // Adds one part per frame. The verdict appears at once, and the page stays responsive for a large job.
  for (const { make } of parts) {
    await new Promise((done) => requestAnimationFrame(done));
    content.append(make(page));
  }
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  document.documentElement.dataset.ready = 'yes';
  performance.mark('ready');
}

void main();
