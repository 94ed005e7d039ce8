// The menu of a word of the translation: other words, other sentences, a word of one's own, or a term to keep.

import { element, View } from "./elements.js";
import { t } from "./texts.js";

const GAP = 6;

export class WordMenu extends View {
  /**
   * `ways` knows other ways to say a sentence. `onChange(number, text)` hears of another translation of a sentence, and
   * `onTerm(term, translation)` of a term to keep.
   */
  constructor(root, { ways, onChange, onTerm }) {
    super(root);
    Object.assign(this, { ways, onChange, onTerm });
    this.word = null;
    this.own = this.find(".own input");
    [this.term, this.translation] = root.querySelectorAll(".term input");
    this.find(".own").addEventListener("submit", (event) => this.useOwn(event));
    this.find(".term").addEventListener("submit", (event) => this.keepTerm(event));
    this.find(".close").addEventListener("click", () => root.hidePopover());
    root.addEventListener("keydown", (event) => this.moveByKey(event));
    root.addEventListener("toggle", ({ newState }) => newState === "closed" && (this.word = null));
  }

  /** Open the menu for a word: its `sentence` and the `whole` translation of it, in which it has a place. */
  async open(word) {
    this.word = word;
    this.find(".word").textContent = word.text;
    this.find(".from").textContent = "";
    this.own.value = "";
    [this.term.value, this.translation.value] = ["", word.text];
    this.find(".keep").open = false;
    for (const list of this.root.querySelectorAll("ul")) list.replaceChildren();
    this.say(t("Looking for other ways to say it …"));
    this.root.showPopover();
    this.place(word.nodes[0]);
    this.root.focus();
    await this.look(word);
    if (this.word === word) this.place(word.nodes[0]);
  }

  async look(word) {
    const { sentence, whole } = word;
    try {
      const [words, sentences] = await Promise.all([
        this.ways.ofWord(sentence, whole, word),
        this.ways.ofSentence(sentence, whole),
      ]);
      if (this.word !== word) return;
      this.find(".from").textContent = this.term.value = words.term;
      this.list(".words", words.options);
      this.list(".sentences", sentences.filter((each) => !words.options.includes(each)));
      this.say(words.options.length + sentences.length ? "" : t("Nothing else fits here."));
    } catch {
      if (this.word === word) this.say(t("Other ways cannot be found at the moment."));
    }
  }

  say(words) {
    this.find(".state").textContent = words;
  }

  list(selector, texts) {
    const list = this.find(selector);
    list.previousElementSibling.hidden = texts.length === 0;
    list.replaceChildren(...texts.map((text) => element("li", {}, [this.option(text)])));
  }

  /** A button of a translation, in which what differs stands out. */
  option(text) {
    const { number, whole } = this.word;
    const [before, changed, after] = difference(whole, text);
    const shown = [before && "… ", element("b", {}, [changed]), after];
    const button = element("button", { type: "button", dir: "auto", title: text }, shown);
    button.addEventListener("click", () => this.choose(number, text));
    return button;
  }

  choose(number, text) {
    this.root.hidePopover();
    this.onChange(number, text);
  }

  async useOwn(event) {
    event.preventDefault();
    const { word } = this;
    const own = this.own.value.trim();
    if (own === "") return;
    try {
      const { text } = await this.ways.continued(word.sentence, word.whole.slice(0, word.start) + own);
      if (this.word === word) this.choose(word.number, text);
    } catch {
      if (this.word === word) this.say(t("Other ways cannot be found at the moment."));
    }
  }

  keepTerm(event) {
    event.preventDefault();
    const [term, translation] = [this.term, this.translation].map(({ value }) => value.trim());
    if (term === "" || translation === "") return;
    this.root.hidePopover();
    this.onTerm(term, translation);
  }

  /** Below the word, or above it where there is more room. */
  place(node) {
    const rect = node.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.root;
    const above = rect.bottom + GAP + height > innerHeight && rect.top > height + GAP;
    const start = document.dir === "rtl" ? rect.right - width : rect.left;
    const left = Math.max(GAP, Math.min(start, document.documentElement.clientWidth - width - GAP));
    this.root.style.setProperty("--top", `${scrollY + (above ? rect.top - height - GAP : rect.bottom + GAP)}px`);
    this.root.style.setProperty("--left", `${scrollX + left}px`);
  }

  moveByKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const buttons = [...this.root.querySelectorAll("li button")];
    if (!step || buttons.length === 0 || event.target.matches("input")) return;
    event.preventDefault();
    const at = buttons.indexOf(document.activeElement);
    buttons[at < 0 ? 0 : Math.max(0, Math.min(at + step, buttons.length - 1))].focus();
  }
}

/** Return what two sentences have in common at the beginning, what is new in the other, and its end; by whole words. */
export function difference(one, other) {
  const [before, after] = [one, other].map((text) => text.split(/(?<=\s)/));
  const [first, last] = common(before, after, Math.min(before.length, after.length) - 1);
  const end = after.length - last;
  return [after.slice(0, first), after.slice(first, end), after.slice(end)].map((parts) => parts.join(""));
}

/** Return how many elements two arrays have in common at the beginning, and at the end; `most` in all. */
export function common(one, other, most = Math.min(one.length, other.length)) {
  let first = 0;
  while (first < most && one[first] === other[first]) first += 1;
  let last = 0;
  while (last < most - first && one.at(-1 - last) === other.at(-1 - last)) last += 1;
  return [first, last];
}
