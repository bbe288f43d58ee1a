// Creates elements. Text is inserted only as text, because names in a trace may have any content.
type Child = Node | string | null | undefined | false;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...(children.filter(Boolean) as (Node | string)[]));
  return element;
}

export function svg(tag: string, attributes: Record<string, string | number> = {}, ...children: Child[]): SVGElement {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...(children.filter(Boolean) as (Node | string)[]));
  return element;
}

export function section(id: string, title: string, about: string, ...children: Child[]): HTMLElement {
  return h(
    'section',
    { class: 'card', id, 'aria-labelledby': `${id}-title` },
    h('h2', { id: `${id}-title` }, title),
    about && h('p', { class: 'about' }, about),
    ...children,
  );
}

export const FONT = '12px system-ui, "DejaVu Sans", sans-serif';
export const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// Calls `fit` with the width of an element at first and whenever the width changes. Before printing, fitAll()
// calls it at once: a page that is being printed delivers no changes.
const fitted: (() => void)[] = [];
export function onResize(element: Element, fit: (width: number) => void): void {
  let width = 0;
  new ResizeObserver((entries) => {
    const now = entries[entries.length - 1].contentRect.width;
    if (now === width || now === 0) return;
    width = now;
    fit(width);
  }).observe(element);
  fitted.push(() => {
    width = element.clientWidth;
    if (width > 0) fit(width);
  });
}
export const fitAll = () => fitted.forEach((fit) => fit());

// A canvas with the screen's resolution. It is drawn again when its width or the theme changes.
export class Drawing {
  readonly canvas: HTMLCanvasElement;
  width = 0;
  height = 0;
  private queued = false;
  constructor(
    label: string,
    private readonly heightOf: (width: number) => number,
    private readonly draw: (g: CanvasRenderingContext2D, d: Drawing) => void,
  ) {
    this.canvas = h('canvas', { tabindex: '0', role: 'application', 'aria-label': label });
    // The observer delivers the width. Reading it from the element would lay out the page again for each
    // picture.
    onResize(this.canvas, (width) => {
      this.width = width;
      if (document.documentElement.dataset.printing) this.drawNow();
      else this.redraw();
    });
    addEventListener('themechange', () => this.redraw());
  }
  redraw(): void {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => {
      this.queued = false;
      this.drawNow();
    });
  }
  private drawNow(): void {
    const width = this.width;
    if (width === 0) return;
    this.height = this.heightOf(width);
    // Paper shows finer lines than most screens.
    const scale = document.documentElement.dataset.printing ? 2 : devicePixelRatio || 1;
    const w = Math.round(width * scale),
      hh = Math.round(this.height * scale);
    if (this.canvas.width !== w) this.canvas.width = w;
    if (this.canvas.height !== hh) {
      this.canvas.height = hh;
      this.canvas.style.height = `${this.height}px`;
    }
    const g = this.canvas.getContext('2d')!;
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, width, this.height);
    g.font = FONT;
    this.draw(g, this);
  }
}

// The rank that the reader has chosen. Pictures mark it.
let chosenRank: number | null = null;
export const chosen = () => chosenRank;
export function choose(rank: number | null): void {
  chosenRank = rank;
  dispatchEvent(new CustomEvent('rankchosen'));
}
