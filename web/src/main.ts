import { readPage, type Page } from './data';
import { h } from './dom';
import { time } from './format';
import { heatmap } from './heatmap';
import { collectives, partition, tables, trust, verdict } from './page_parts';
import { seriesPart } from './series';
import { themeButton } from './theme';
import { timelinePart } from './timeline';
import { waitingPart } from './waiting';
import { waterfall } from './waterfall';

const PARTS: [string, string, (page: Page) => HTMLElement][] = [
  ['causes', 'Causes', waterfall],
  ['heat', 'Steps × ranks', heatmap],
  ['partition', 'Ranks', partition],
  ['waiting', 'Waiting', waitingPart],
  ['timeline', 'Timeline', timelinePart],
  ['collectives', 'Collectives', collectives],
  ['series', 'Over time', seriesPart],
  ['tables', 'Tables', tables],
];

function about(page: Page): string {
  const c = page.report.capture;
  const start = c.start_unix_ns ? new Date(c.start_unix_ns / 1e6).toISOString().slice(0, 19).replace('T', ' ') + ' UTC' : '';
  const n = page.steps.numbers;
  return [
    `job ${c.job}`,
    `${page.report.ranks.length} ranks on ${c.hosts} ${c.hosts === 1 ? 'host' : 'hosts'}`,
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
  const content = h('main', { id: 'content' });
  app.replaceChildren(
    h('a', { href: '#content', class: 'skip' }, 'To the report'),
    h('header', { class: 'top' }, h('h1', {}, 'Lockstep report'), h('span', { class: 'job' }, about(page)), theme),
    h(
      'nav',
      { class: 'parts', 'aria-label': 'Parts of the report' },
      h('ul', {}, ...PARTS.map(([id, name]) => h('li', {}, h('a', { href: `#${id}` }, name)))),
    ),
    content,
    h('footer', { class: 'card' }, h('p', {}, `Made by lockstep ${page.version}. This file asks nobody for anything.`)),
  );
  content.append(verdict(page), trust(page));
  // Adds one part per frame. The verdict appears at once, and the page stays responsive for a large job.
  for (const [, , make] of PARTS) {
    await new Promise((done) => requestAnimationFrame(done));
    content.append(make(page));
  }
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  document.documentElement.dataset.ready = 'yes';
  performance.mark('ready');
}

void main();
