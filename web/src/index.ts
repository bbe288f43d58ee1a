// The aggregator's page: its jobs and captures, updated continuously.
import { h, section, svg } from './dom';
import { bytes, count, percent, ranks as rankList, time } from './format';
import { hints } from './hint';
import { type Capture, type Index, type Job, NotAllowed, readIndex, session } from './index_data';
import { type Column, liveTable } from './table';
import { themeButton } from './theme';

const EVERY_MS = 2000;
const RUNNING = ['arming', 'starting', 'capturing', 'draining', 'analysing'];
const LOOKS: Record<string, string> = {
  running: 'good',
  incomplete: 'warn',
  done: 'good',
  partial: 'warn',
  failed: 'bad',
  hang: 'bad',
  slower: 'warn',
  STRAGGLER: 'bad',
  SLOW: 'bad',
  HEALTHY: 'good',
};

// Each part is explicit. With the time zone alone, browsers write some hours with one digit.
const STAMP: Intl.DateTimeFormatOptions = {
  year: 'numeric',
  month: '2-digit',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  timeZoneName: 'short',
};
const when = (ns: number | null) =>
  ns == null ? '–' : new Date(ns / 1e6).toLocaleString('sv-SE', STAMP);
const badge = (word: string, looks = LOOKS[word] ?? (RUNNING.includes(word) ? 'busy' : '')) =>
  h('span', { class: `state ${looks}` }, word);

// Returns the part by which a step takes longer than at the begin of the trend, or null.
function change(j: Job): number | null {
  const trend = j.trend_ns ?? [];
  return trend.length > 1 && trend[0] > 0 ? trend[trend.length - 1] / trend[0] - 1 : null;
}

// Draws values as a line of text's height. The lowest is at the bottom.
function line(values: number[]): SVGElement {
  const [width, height] = [80, 14];
  const low = Math.min(...values);
  const range = Math.max(...values) - low || 1;
  const points = values.map((v, i) => `${((i / (values.length - 1)) * width).toFixed(1)},${(height - ((v - low) / range) * height).toFixed(1)}`);
  const drawing = svg('svg', { width, height, viewBox: `-1 -1 ${width + 2} ${height + 2}`, 'aria-hidden': 'true' });
  drawing.append(svg('polyline', { points: points.join(' '), fill: 'none', stroke: 'currentColor', 'stroke-width': 1.5 }));
  return drawing;
}

const JOBS: Column<Job>[] = [
  { name: 'job', value: (j) => j.job },
  { name: 'state', value: (j) => j.state, show: (j) => badge(j.state) },
  {
    name: 'ranks',
    number: true,
    about: 'that can be captured now, of the job’s',
    value: (j) => j.ranks,
    show: (j) => `${count(j.ranks)} of ${j.world_size == null ? 'unknown' : count(j.world_size)}`,
  },
  {
    name: 'nodes',
    number: true,
    value: (j) => j.hosts.length,
    show: (j) => {
      const cell = h('span', {}, count(j.hosts.length));
      cell.title = j.hosts.join(' ');
      return cell;
    },
  },
  { name: 'uid', number: true, about: 'the user’s number', value: (j) => j.uid },
  {
    name: 'last seen',
    value: (j) => (j.state === 'gone' ? j.last_seen_unix_ns : Infinity),
    show: (j) => (j.state === 'gone' ? when(j.last_seen_unix_ns) : 'now'),
  },
  { name: 'step', number: true, about: 'median of the last 64', value: (j) => j.step_ns ?? null, show: (j) => time(j.step_ns) },
  {
    name: 'trend',
    about: 'a step in each of the last 60 minutes, and the change since the first of them',
    value: change,
    show: (j) => {
      const part = change(j);
      return part == null ? '–' : h('span', {}, line(j.trend_ns!), ` ${part < 0 ? '−' : '+'}${percent(Math.abs(part), 0)}`);
    },
  },
  {
    name: 'alarm',
    wrap: true,
    value: (j) => j.alarm_text ?? null,
    show: (j) => (j.alarm ? h('span', {}, badge(j.alarm), ' ', j.alarm_text ?? '') : '–'),
  },
  {
    name: 'recorded',
    about: 'captured again and again (lockstep record on)',
    value: (j) => j.window_ns ?? null,
    show: (j) => (j.window_ns == null ? '–' : `${time(j.window_ns)} each ${time(j.period_ns)}`),
  },
];

const who = (c: Capture) => (c.culprit_ranks.length === 0 ? '' : `rank ${rankList(c.culprit_ranks, 4)}`);

function captureColumns(base: string): Column<Capture>[] {
  const file = (c: Capture, name: string, text: string) => {
    const link = h('a', { href: `${base}captures/${encodeURIComponent(c.id)}/${name}` }, text);
    link.setAttribute('aria-label', `${name} of ${c.id}`);
    return link;
  };
  return [
    {
      name: 'capture',
      value: (c) => c.id,
      show: (c) => (c.files.includes('report.html') ? file(c, 'report.html', c.id) : c.id),
    },
    { name: 'state', value: (c) => c.state, show: (c) => badge(c.state) },
    {
      name: 'verdict',
      wrap: true,
      value: (c) => c.text,
      show: (c) => {
        const [word, ...rest] = c.text.split(' ');
        return LOOKS[word] ? h('span', {}, badge(word), ' ', rest.join(' ')) : c.text || '–';
      },
    },
    { name: 'job', value: (c) => c.job },
    { name: 'who', value: who, show: (c) => who(c) || '–' },
    { name: 'cause', value: (c) => c.cause },
    {
      name: 'gain per step',
      number: true,
      about: 'by which a step gets shorter when the first cause is fixed',
      value: (c) => c.gain_ns_per_step,
      show: (c) => time(c.gain_ns_per_step),
    },
    {
      name: 'slowdown',
      number: true,
      value: (c) => c.slowdown_ratio,
      show: (c) => (c.slowdown_ratio == null ? '–' : `${c.slowdown_ratio.toFixed(3)}x`),
    },
    { name: 'begun', value: (c) => c.start_unix_ns, show: (c) => when(c.start_unix_ns) },
    { name: 'window', number: true, value: (c) => c.duration_ns, show: (c) => time(c.duration_ns) },
    {
      name: 'ranks',
      number: true,
      value: (c) => c.ranks,
      show: (c) => `${count(c.ranks)}${c.missing_ranks ? `, ${count(c.missing_ranks)} missing` : ''}`,
    },
    { name: 'steps', number: true, value: (c) => c.steps, show: (c) => count(c.steps) },
    {
      name: 'lost',
      number: true,
      about: 'records that were lost on the way, of all',
      value: (c) => c.lost_records,
      show: (c) =>
        c.lost_records
          ? `${count(c.lost_records)} (${percent(c.lost_records / ((c.records ?? 0) + c.lost_records))})`
          : count(c.lost_records),
    },
    { name: 'records', number: true, value: (c) => c.records, show: (c) => count(c.records) },
    { name: 'size', number: true, value: (c) => c.bytes, show: (c) => bytes(c.bytes) },
    {
      name: 'files',
      value: (c) => c.files.length,
      show: (c) => {
        const cell = h('span');
        for (const name of c.files) cell.append(file(c, name, name.split('.')[1]), ' ');
        return c.files.length > 0 ? cell : '–';
      },
    },
  ];
}

// Shows the next command if a table is empty. The reader's machine may reach the address by another name.
function showCommands(what: 'daemons' | 'jobs' | 'captures', index: Index): HTMLElement {
  const address = index.listen.find((a) => !a.startsWith('unix:')) ?? index.listen[0] ?? 'HOST:PORT';
  const token = address.startsWith('unix:') ? '' : ' --token-file FILE';
  const lines = {
    daemons: ['No node is connected. On each node:', `lockstepd --aggregator ${address}${token}`],
    jobs: ['No job is here. Start one under Lockstep:', 'mpiexec -n 8 lockstep run -- python train.py'],
    captures: ['Nothing was captured yet. While a job runs:', `lockstep trace --aggregator ${address}${token} --duration 2s`],
  }[what];
  return h('div', {}, h('p', {}, lines[0]), h('pre', {}, h('code', {}, lines[1])));
}

// A table, or instructions that lead to its first rows.
class Part<R> {
  readonly element: HTMLElement;
  private readonly place = h('div');
  private readonly table;
  private shown: HTMLElement | null = null;
  constructor(id: string, title: string, about: string, columns: Column<R>[]) {
    this.table = liveTable(columns, [] as R[], { caption: title });
    this.element = section(id, title, about, this.place);
  }
  update(rows: R[], empty: () => HTMLElement): void {
    if (rows.length > 0) this.table.update(rows);
    const wanted = rows.length > 0 ? this.table.element : empty();
    if (wanted === this.shown) return;
    this.shown = wanted;
    this.place.replaceChildren(wanted);
  }
}

// Polls the index until the session ends.
async function live(app: HTMLElement, top: HTMLElement, base: string): Promise<void> {
  const jobs = new Part<Job>('jobs', 'Jobs', 'What the connected nodes run, and what they ran.', JOBS);
  const captures = new Part<Capture>('captures', 'Captures', 'Newest first. A capture’s name leads to its report.', captureColumns(base));
  const state = h('span', { class: 'state', role: 'status', id: 'connection' }, 'connecting');
  const program = h('span', { class: 'job' });
  const lost = h('section', { class: 'card lost', hidden: '', role: 'alert', id: 'lost' });
  const main = h('main', { id: 'content' }, lost, jobs.element, captures.element);
  app.replaceChildren(h('a', { href: '#content', class: 'skip' }, 'To the jobs'), top, main);
  top.querySelector('.beside')!.replaceChildren(state, program);
  let before = '';
  let heard = 'never';
  for (;;) {
    try {
      const { text, index } = await readIndex(base);
      heard = new Date().toLocaleTimeString('sv-SE');
      if (state.textContent !== 'live') {
        state.textContent = 'live';
        state.className = 'state good';
        lost.hidden = true;
      }
      if (text !== before) {
        const running = index.captures.filter((c) => RUNNING.includes(c.state)).length;
        const here = index.jobs.filter((j) => j.state !== 'gone').length;
        program.textContent = [
          index.program,
          `${count(index.daemons)} ${index.daemons === 1 ? 'node' : 'nodes'}`,
          index.unread > 0 && `${count(index.unread)} older captures are being looked into`,
        ]
          .filter(Boolean)
          .join(' · ');
        document.title = `${running > 0 ? `${running} running · ` : ''}Lockstep: ${here} ${here === 1 ? 'job' : 'jobs'}`;
        jobs.update(index.jobs, () => showCommands(index.daemons === 0 ? 'daemons' : 'jobs', index));
        captures.update(index.captures, () => showCommands('captures', index));
        before = text;
        document.documentElement.dataset.ready = 'yes';
      }
    } catch (error) {
      if (error instanceof NotAllowed) return session.forget();
      state.textContent = 'not connected';
      state.className = 'state bad';
      lost.replaceChildren(
        h('h2', {}, 'The aggregator does not answer'),
        h('p', {}, `What is below is of ${heard}. Asked again every ${EVERY_MS / 1000} s; ${error instanceof Error ? error.message : error}.`),
      );
      lost.hidden = false;
    }
    await new Promise((done) => setTimeout(done, EVERY_MS));
    // A hidden page sends no requests.
    if (document.hidden) await new Promise((done) => document.addEventListener('visibilitychange', done, { once: true }));
  }
}

// Resolves as soon as a session exists. `reason` states why none exists.
function signIn(app: HTMLElement, top: HTMLElement, reason: string): Promise<void> {
  const input = h('input', { type: 'password', autocomplete: 'off', required: '', id: 'token', spellcheck: 'false' });
  const message = h('p', { role: 'alert', id: 'refused' }, reason);
  const form = h(
    'form',
    { class: 'sign-in' },
    h('label', { for: 'token' }, 'Token', input),
    h('button', { type: 'submit' }, 'Open'),
  );
  top.querySelector('.beside')!.replaceChildren();
  app.replaceChildren(
    top,
    h(
      'main',
      { id: 'content' },
      section(
        'sign-in',
        'Jobs and captures of this aggregator',
        'They open with the token that the aggregator was started with: the content of its --token-file. A token for one job (lockstep token create) opens that job.',
        form,
        message,
        h('p', { class: 'hint' }, 'Or type this page’s address with #token=TOKEN at its end. The token is sent once, to this port only, and not kept.'),
      ),
    ),
  );
  document.documentElement.dataset.ready = 'yes';
  input.focus();
  return new Promise((done) =>
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      session.open(input.value.trim()).then(
        (refused) => {
          if (!refused) return done();
          message.textContent = `The aggregator refuses the token: ${refused}`;
          input.select();
        },
        (error: Error) => (message.textContent = `The aggregator does not answer: ${error.message}`),
      );
    }),
  );
}

async function main(): Promise<void> {
  const app = document.getElementById('app')!;
  document.body.append(hints());
  const top = h('header', { class: 'top' }, h('h1', {}, 'Lockstep'), h('span', { class: 'job beside' }), themeButton());
  let reason = '';
  const given = /^#token=(.+)$/.exec(location.hash);
  if (given) {
    // Removes the token from the address and the history, so that it is not copied with them.
    history.replaceState(null, '', location.pathname);
    const refused = await session.open(decodeURIComponent(given[1])).catch((error: Error) => error.message);
    if (refused) reason = `The aggregator refuses the token in the address: ${refused}`;
  } else if (location.protocol === 'https:' && !session.get()) {
    // The browser may have the user's certificate.
    await session.open().catch(() => '');
  }
  for (;;) {
    const base = session.get();
    if (base && !reason) {
      await live(app, top, base);
      reason = 'The aggregator was started again, or this browser was: show the token once more.';
    }
    await signIn(app, top, reason);
    reason = '';
  }
}

void main();
