// Printing: light colours, every picture drawn for the width of the paper, tables without their scroll bars.
import { fitAll } from './dom';

export function preparePrinting(): void {
  const root = document.documentElement;
  let theme: string | undefined;
  addEventListener('beforeprint', () => {
    theme = root.dataset.theme;
    root.dataset.printing = 'yes';
    root.dataset.theme = 'light';
    dispatchEvent(new CustomEvent('themechange'));
    dispatchEvent(new CustomEvent('printing'));
    fitAll();
  });
  addEventListener('afterprint', () => {
    delete root.dataset.printing;
    if (theme) root.dataset.theme = theme;
    dispatchEvent(new CustomEvent('themechange'));
    fitAll();
  });
}
