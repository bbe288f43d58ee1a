// The definition of a term, beside the term that the pointer or the focus is on. There is one hint for the whole page,
// which stays inside the window.
import { h } from './dom';

const MARGIN = 8; // pixels to the edges of the window and to the term

export function hints(): HTMLElement {
  const hint = h('div', { class: 'definition', id: 'definition', role: 'tooltip', hidden: '' });
  let shown: Element | null = null;
  const hide = () => {
    shown?.removeAttribute('aria-describedby');
    shown = null;
    hint.hidden = true;
  };
  const place = (term: Element) => {
    // A term that wraps has several boxes.
    const box = term.getClientRects()[0] ?? term.getBoundingClientRect(),
      width = document.documentElement.clientWidth;
    hint.style.left = `${Math.max(MARGIN, Math.min(box.left, width - hint.offsetWidth - MARGIN))}px`;
    const below = box.bottom + MARGIN;
    hint.style.top = `${below + hint.offsetHeight > innerHeight ? box.top - hint.offsetHeight - MARGIN : below}px`;
  };
  const show = (target: EventTarget | null) => {
    const term = target instanceof Element ? target.closest<HTMLElement>('[data-about]') : null;
    // The pointer does not hide the definition of a term that has the focus.
    if (term === shown || (!term && shown && shown === document.activeElement)) return;
    hide();
    if (!term) return;
    shown = term;
    hint.textContent = term.dataset.about!;
    hint.hidden = false;
    term.setAttribute('aria-describedby', 'definition');
    place(term);
  };
  addEventListener('pointerover', (e) => show(e.target));
  addEventListener('focusin', (e) => show(e.target));
  addEventListener('focusout', hide);
  // The focus may scroll the page to its term.
  const follow = () => (shown && shown === document.activeElement ? place(shown) : hide());
  addEventListener('scroll', follow, { passive: true, capture: true });
  addEventListener('keydown', (e) => {
    if (e.key === 'Escape') hide();
  });
  return hint;
}
