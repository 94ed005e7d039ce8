// The pane of the text: counts its characters, and marks the part of it that a token comes from.

import { element } from "./elements.js";

const END = "\u200b"; // so that a line end at the end of a text makes a line

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

  count() {
    const limit = this.limit ? ` of ${this.limit.toLocaleString("en")}` : "";
    this.counter.textContent = `${Array.from(this.text).length.toLocaleString("en")}${limit} characters`;
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
