// The two panes of text: they grow together, and beyond their greatest height they scroll together.

/** Scroll the other pane by the same share when the reader scrolls one; one that scrolls by itself moves no other. */
export function scrollTogether(panes) {
  let led = null;
  for (const pane of panes) {
    for (const sign of ["pointerenter", "pointerdown", "wheel", "touchstart", "keydown"]) {
      pane.addEventListener(sign, () => (led = pane), { passive: true });
    }
    pane.addEventListener("scroll", () => {
      if (led !== pane) return;
      const way = pane.scrollHeight - pane.clientHeight;
      for (const other of panes) {
        if (other === pane || way <= 0) continue;
        other.scrollTop = (pane.scrollTop / way) * (other.scrollHeight - other.clientHeight);
      }
    });
  }
}
