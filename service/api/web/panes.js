// The two panes of text. The source's counts its characters, and marks the part of it that a token comes from. The
// target's draws tokens as they arrive, and leaves its reader time to use the page; a finished translation is read word
// by word: a click or the keys choose one.

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

const FRAME_MILLISECONDS = 16;
const RESTS = 4; // times as long as a drawing took, the page does not draw

export class TargetPane {
  /**
   * `onPoint(token)` hears of the token under the pointer, or null; `onDraw` of each drawing; `onWord(word)` of a word
   * that was chosen: its `text` and `nodes`, its `start` and `end` in the `whole` translation of the sentence `number`.
   */
  constructor(output, { onPoint, onDraw, onWord }) {
    Object.assign(this, { output, onPoint, onDraw, onWord });
    this.undrawn = [];
    this.sentences = []; // the nodes of sentences, by their numbers
    this.tokens = new WeakMap(); // by the nodes that show them
    this.marked = [];
    this.drawing = null;
    this.effort = 0; // milliseconds that the last drawing took
    this.following = true;
    this.stale = false;
    output.addEventListener("pointerover", (event) => this.point(event.target));
    output.addEventListener("pointerleave", () => this.point(null));
    output.addEventListener("click", (event) => this.choose(event.target));
    output.addEventListener("keydown", (event) => this.moveByKey(event));
    output.addEventListener("blur", () => this.mark([]));
  }

  /** The translation; of a live one, what is committed. */
  get text() {
    return (this.output.querySelector(".committed") ?? this.output).textContent;
  }

  /** The same with the draft behind it. */
  get shown() {
    return this.output.textContent;
  }

  get empty() {
    return this.output.childElementCount === 0;
  }

  /** Remove the translation. */
  clear() {
    clearTimeout(this.drawing);
    this.drawing = null;
    this.undrawn = [];
    this.remove();
  }

  remove() {
    this.output.replaceChildren();
    this.sentences = [];
    this.marked = [];
    this.setStale(false);
  }

  /** Show that the translation is of an earlier text; the next drawing removes it. */
  expect() {
    this.undrawn = [];
    this.following = true;
    if (!this.empty) this.setStale(true);
  }

  setStale(stale) {
    this.stale = stale;
    this.output.classList.toggle("stale", stale);
  }

  append(number, token) {
    this.undrawn.push([number, token]);
  }

  /** Draw a little later: tokens can arrive faster than people read, and the layout of a long text takes time. */
  drawSoon() {
    this.drawing ??= setTimeout(() => this.draw(), FRAME_MILLISECONDS + RESTS * this.effort);
  }

  draw() {
    const began = performance.now();
    clearTimeout(this.drawing);
    this.drawing = null;
    if (this.stale) this.remove();
    for (const [number, token] of this.undrawn) this.drawToken(number, token);
    this.undrawn = [];
    this.onDraw();
    if (this.following) this.output.scrollTop = this.output.scrollHeight;
    this.effort = performance.now() - began;
  }

  drawToken(number, token) {
    const word = token.text.trimStart();
    const span = element("span", { class: "token" }, [word]);
    this.tokens.set(span, token);
    this.sentence(number).append(token.text.slice(0, token.text.length - word.length), span);
  }

  sentence(number) {
    this.sentences[number] ??= this.output.appendChild(element("span", { class: "sentence", "data-number": number }));
    return this.sentences[number];
  }

  /** Show another text as the translation of a sentence. */
  replace(number, text) {
    const parts = [...this.segmenter("word").segment(text)].map(({ segment, isWordLike }) =>
      isWordLike ? element("span", { class: "token" }, [segment]) : segment,
    );
    this.mark([]);
    this.sentence(number).replaceChildren(...parts);
  }

  /** Show a text whose sentences nobody knows. */
  replaceAll(text) {
    this.remove();
    this.output.append(element("span", {}, [text]));
  }

  textOf(number) {
    return this.sentences[number].textContent;
  }

  segmenter(granularity) {
    return new Intl.Segmenter(this.output.lang || "en", { granularity });
  }

  /** The word around a node of a sentence. */
  wordAt(node) {
    const sentence = node?.closest?.(".token") && node.closest(".sentence");
    if (!sentence) return null;
    let start = 0;
    for (const each of sentence.childNodes) {
      if (each === node) break;
      start += each.textContent.length;
    }
    const found = this.segmenter("word").segment(sentence.textContent).containing(start);
    return found?.isWordLike ? this.word(sentence, found) : null;
  }

  word(sentence, { index, segment }) {
    const end = index + segment.length;
    const nodes = [];
    let at = 0;
    for (const each of sentence.childNodes) {
      const next = at + each.textContent.length;
      if (each.nodeType === Node.ELEMENT_NODE && at < end && next > index) nodes.push(each);
      at = next;
    }
    const whole = sentence.textContent;
    const lead = whole.length - whole.trimStart().length;
    const place = { whole: whole.trim(), start: index - lead, end: end - lead };
    return { number: Number(sentence.dataset.number), ...place, text: segment, nodes };
  }

  get words() {
    return this.sentences.filter(Boolean).flatMap((sentence) =>
      [...this.segmenter("word").segment(sentence.textContent)]
        .filter(({ isWordLike }) => isWordLike)
        .map((each) => this.word(sentence, each)),
    );
  }

  point(node) {
    const word = this.readable ? this.wordAt(node) : null;
    this.mark(word?.nodes ?? []);
    this.onPoint((node && this.tokens.get(node)) ?? null);
  }

  /** True once the translation is complete. */
  get readable() {
    return !this.stale && this.output.ariaBusy !== "true";
  }

  choose(node) {
    if (!getSelection().isCollapsed) return; // somebody marks a part to copy it
    const word = this.readable ? this.wordAt(node) : null;
    if (word) this.onWord(word);
  }

  /** The arrow keys move from word to word, and Enter chooses one. */
  moveByKey(event) {
    const words = this.readable ? this.words : [];
    if (words.length === 0) return;
    const at = words.findIndex(({ nodes }) => nodes.includes(this.marked[0]));
    const forwards = getComputedStyle(this.output).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
    const steps = { Home: 0, End: words.length - 1, [forwards]: Math.min(at + 1, words.length - 1) };
    if (["ArrowLeft", "ArrowRight"].includes(event.key)) steps[event.key] ??= Math.max(at - 1, 0);
    if (["Enter", " "].includes(event.key) && at >= 0) this.onWord(words[at]);
    else if (event.key in steps) this.show(words[steps[event.key]]);
    else return;
    event.preventDefault();
  }

  show(word) {
    this.mark(word.nodes);
    word.nodes[0].scrollIntoView({ block: "nearest" });
    this.onPoint(this.tokens.get(word.nodes[0]) ?? null);
  }

  mark(nodes) {
    for (const node of this.marked) node.classList.remove("current");
    for (const node of nodes) node.classList.add("current");
    this.marked = nodes;
  }

  /** Mark the token of a sentence, or none. */
  markToken(number, index) {
    const token = number === null ? null : this.sentences[number]?.querySelectorAll(".token")[index];
    this.mark(token && this.tokens.has(token) ? [token] : []);
  }
}

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
