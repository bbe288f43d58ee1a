// The aggregator's interface: the session and the index (docs/formats/index.md).
type Known = number | null;

export interface Job {
  job: string;
  uid: number;
  state: 'running' | 'incomplete' | 'gone';
  ranks: number;
  world_size: Known;
  hosts: string[];
  last_seen_unix_ns: number;
  // An aggregator of an older release does not send these.
  step_ns?: Known;
  trend_ns?: number[];
  slow_ranks?: number[];
  alarm?: 'hang' | 'slower' | null;
  alarm_text?: string | null;
  window_ns?: Known;
  period_ns?: Known;
}

export interface Capture {
  id: string;
  job: string;
  uid: Known;
  state: string;
  text: string;
  start_unix_ns: Known;
  duration_ns: Known;
  world_size: Known;
  ranks: Known;
  missing_ranks: Known;
  hosts: Known;
  steps: Known;
  records: Known;
  lost_records: Known;
  bytes: Known;
  slowdown_ratio: Known;
  culprit_ranks: number[];
  cause: string | null;
  verdict: string | null;
  gain_ns_per_step: Known;
  files: string[];
}

export interface Index {
  schema: string;
  program: string;
  listen: string[];
  daemons: number;
  unread: number;
  jobs: Job[];
  captures: Capture[];
}

export class NotAllowed extends Error {}

const SCHEMA = 'lockstep.index/1';
const KEPT = 'lockstep-session';
const PATIENCE_MS = 10_000;
const ask = (path: string, headers: Record<string, string> = {}) =>
  fetch(path, { headers, cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS) });

// The path of the session. It opens nothing without the session's cookie, so that it may be stored for other
// tabs.
export const session = {
  get: () => localStorage.getItem(KEPT),
  forget: () => localStorage.removeItem(KEPT),
  // Without a token, the browser's certificate must prove the user. Returns the reason if the proof is refused,
  // else an empty text.
  async open(token?: string): Promise<string> {
    const answer = await ask('session', token ? { Authorization: `Bearer ${token}` } : {});
    if (answer.status === 401 || answer.status === 403) return (await answer.text()).trim();
    if (!answer.ok) throw new Error((await answer.text()).trim());
    localStorage.setItem(KEPT, (await answer.json()).base);
    return '';
  },
};

// Also returns the document as text. An equal text means that nothing has changed.
export async function readIndex(base: string): Promise<{ text: string; index: Index }> {
  const answer = await ask(`${base}api/index.json`);
  if (answer.status === 401) throw new NotAllowed();
  if (!answer.ok) throw new Error(`${answer.status}: ${(await answer.text()).trim()}`);
  const text = await answer.text();
  const index: Index = JSON.parse(text);
  if (index.schema !== SCHEMA) throw new Error(`it speaks ${index.schema}, and this page ${SCHEMA}: load the page again`);
  return { text, index };
}
