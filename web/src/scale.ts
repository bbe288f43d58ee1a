// The scale of a picture's colours: the lowest and the highest colour with their values.
import { colour, Drawing, h } from './dom';

const STEPS = 33;

export interface Scale {
  low: string;
  high: string;
  signed?: boolean; // the colours go from less over none to more
}

// Pictures mix their colours by the square root, so that small values are visible.
export const shade = (part: number) => Math.sqrt(Math.min(1, Math.max(0, part)));

// `read` is called at each update, because the values depend on what the reader chose to see.
export function colourScale(read: () => Scale): { element: HTMLElement; update: () => void } {
  const low = h('span', {}),
    high = h('span', {});
  const drawing = new Drawing(
    'scale of colours',
    () => 12,
    (g, d) => {
      const { signed } = read();
      g.fillStyle = colour('heat-zero');
      g.fillRect(0, 0, d.width, d.height);
      for (let k = 0; k < STEPS; ++k) {
        const at = signed ? (2 * k) / (STEPS - 1) - 1 : k / (STEPS - 1);
        g.globalAlpha = shade(Math.abs(at));
        g.fillStyle = colour(at < 0 ? 'heat-less' : 'heat-more');
        // Whole pixels leave no gaps.
        const from = Math.round((k * d.width) / STEPS),
          to = Math.round(((k + 1) * d.width) / STEPS);
        g.fillRect(from, 0, to - from, d.height);
      }
      g.globalAlpha = 1;
    },
  );
  drawing.canvas.className = 'scale';
  drawing.canvas.removeAttribute('tabindex');
  drawing.canvas.setAttribute('role', 'img');
  const update = () => {
    const now = read();
    low.textContent = now.low;
    high.textContent = now.high;
    drawing.canvas.setAttribute('aria-label', `colours from ${now.low} to ${now.high}`);
    drawing.redraw();
  };
  update();
  return { element: h('span', { class: 'scale-row' }, low, drawing.canvas, high), update };
}
