// The pane of the text: counts its characters, and marks the part of it that a token comes from.

import { element } from "./elements.js";
import { number, t } from "./texts.js";

const END = "\u200b"; // so that a line end at the end of a text makes a line
const WORTH_COUNTING = 0.8; // of the limit

export class SourcePane {
  /** `backdrop` lies behind the text area `area`, and shows the same text with a mark. */
  constructor({ area, backdrop, counter }) {
    Object.assign(this, { area, backdrop, counter });
    this.limit = null; // in characters
    area.addEventListener("scroll", () => this.scroll());
  }

  get text() {
    return this.area.value;
  }

  set text(text) {
    this.area.value = text;
    this.count();
  }

  get empty() {
    return this.text.trim() === "";
  }

  /** Say how long the text is once the limit is near. */
  count() {
    const count = Array.from(this.text).length;
    const near = this.limit && count > WORTH_COUNTING * this.limit;
    const words = () => t("{count} of {limit} characters", { count: number(count), limit: number(this.limit) });
    this.counter.textContent = near ? words() : "";
  }

  /** Mark a range of the text in UTF-16 units, or nothing. */
  mark(range) {
    const [start, end] = range ?? [0, 0];
    const marked = range ? [element("mark", {}, [this.text.slice(start, end)])] : [];
    this.backdrop.replaceChildren(this.text.slice(0, start), ...marked, `${this.text.slice(end)}${END}`);
    this.scroll();
  }

  scroll() {
    this.backdrop.scrollTop = this.area.scrollTop;
  }
}
