// The pane of the translation: draws tokens as they arrive, and leaves its reader time to use the page.

import { element } from "./elements.js";

const FRAME_MILLISECONDS = 16;
const RESTS = 4; // times as long as a drawing took, the page does not draw

export class TargetPane {
  /** `onPoint(token)` hears of the token under the pointer, or null; `onDraw` of each drawing. */
  constructor(output, { onPoint, onDraw }) {
    Object.assign(this, { output, onPoint, onDraw });
    this.undrawn = document.createDocumentFragment();
    this.drawing = null;
    this.effort = 0; // milliseconds that the last drawing took
    this.following = true;
  }

  get text() {
    return this.output.textContent;
  }

  get empty() {
    return this.output.childElementCount === 0;
  }

  /** Remove the translation, and follow the next one. */
  clear() {
    this.stopWaiting();
    this.undrawn.replaceChildren();
    this.output.replaceChildren();
    this.following = true;
  }

  append(token) {
    const word = token.text.trimStart();
    const span = element("span", { class: "token" }, [word]);
    if (token.from) {
      span.addEventListener("pointerenter", () => this.onPoint(token));
      span.addEventListener("pointerleave", () => this.onPoint(null));
    }
    this.undrawn.append(token.text.slice(0, token.text.length - word.length), span);
  }

  /** Draw a little later: tokens can arrive faster than people read, and the layout of a long text takes time. */
  drawSoon() {
    this.drawing ??= setTimeout(() => this.draw(), FRAME_MILLISECONDS + RESTS * this.effort);
  }

  draw() {
    const began = performance.now();
    this.stopWaiting();
    this.output.append(this.undrawn);
    this.onDraw();
    if (this.following) this.output.scrollTop = this.output.scrollHeight;
    this.effort = performance.now() - began;
  }

  stopWaiting() {
    clearTimeout(this.drawing);
    this.drawing = null;
  }

  /** Mark the token at a position, or none. */
  mark(position) {
    this.output.querySelector(".token.current")?.classList.remove("current");
    this.output.children[position]?.classList.add("current");
  }
}
