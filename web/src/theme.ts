import { h } from './dom';

// Follows the system's theme until the reader chooses one. The choice is not stored.
export function themeButton(): HTMLElement {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  let chosen: boolean | null = null;
  const button = h('button', { type: 'button' });
  const apply = () => {
    const isDark = chosen ?? dark.matches;
    document.documentElement.dataset.theme = isDark ? 'dark' : 'light';
    button.textContent = isDark ? 'Light' : 'Dark';
    button.setAttribute('aria-label', isDark ? 'use light colours' : 'use dark colours');
    dispatchEvent(new CustomEvent('themechange'));
  };
  dark.addEventListener('change', apply);
  button.addEventListener('click', () => {
    chosen = !(chosen ?? dark.matches);
    apply();
  });
  apply();
  return button;
}
