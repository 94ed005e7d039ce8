// A translation that its reader changes: the menu of a word, with other words, other sentences, a word of one's own, or
// a term to keep; and the correction by hand, which can be taken back, and be sent to a server that stores suggestions.

import { element, setFace, View } from "./elements.js";
import { t } from "./texts.js";

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
    this.find(".own").addEventListener("submit", (event) => this.useOwn(event));
    this.find(".keep").addEventListener("click", () => this.keepTerm());
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
    for (const list of this.root.querySelectorAll("ul")) list.replaceChildren();
    this.say(t("Looking for other ways to say it …"));
    this.root.showPopover({ source: word.nodes[0] });
    this.root.focus();
    await this.look(word);
  }

  async look(word) {
    const { sentence, whole } = word;
    try {
      const [words, sentences] = await Promise.all([
        this.ways.ofWord(sentence, whole, word),
        this.ways.ofSentence(sentence, whole),
      ]);
      if (this.word !== word) return;
      this.find(".from").textContent = words.term;
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

  keepTerm() {
    this.root.hidePopover();
    this.onTerm(this.find(".from").textContent, this.find(".word").textContent);
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
function difference(one, other) {
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

export class Correction {
  /**
   * `bar`, `editor` and `buttons` are elements of the page. `onChange` hears that the translation is another one;
   * `onSuggest` sends it.
   */
  constructor({ target, bar, editor }, buttons, { onChange, onSuggest }) {
    Object.assign(this, { target, bar, editor, buttons, onChange });
    this.suggests = false;
    this.before = null; // the translation as it came
    buttons.edit.addEventListener("click", () => (this.editing ? this.finish() : this.edit()));
    buttons.undo.addEventListener("click", () => this.undo());
    buttons.suggest.addEventListener("click", async () => (buttons.suggest.hidden = await onSuggest()));
    editor.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.finish();
      if (["Escape", "Enter"].includes(event.key)) event.stopPropagation();
    });
  }

  get editing() {
    return !this.editor.hidden;
  }

  /** Forget all changes: another translation comes. */
  reset() {
    this.before = null;
    this.bar.hidden = true;
    this.show(false); // the reader is at another place
  }

  /** Show another text as the translation of a sentence. */
  replace(number, text) {
    this.remember();
    const whole = this.target.textOf(number);
    const [lead] = /^\s*/.exec(whole);
    const [trail] = /\s*$/.exec(whole);
    this.target.replace(number, lead + text + trail);
    this.changed();
  }

  edit() {
    this.editor.value = this.target.text;
    this.show(true);
    this.editor.focus();
  }

  /** Take over what was written by hand. */
  finish() {
    const { text } = this.target;
    const edited = this.editor.value;
    this.close();
    if (edited === text) return;
    this.remember();
    const place = this.place(text, edited);
    if (place) this.target.replace(place.number, place.edited);
    else this.target.replaceAll(edited);
    this.changed();
  }

  /** The only sentence that differs, with its new text; null if there is none. */
  place(text, edited) {
    const numbers = [...this.target.sentences.keys()].filter((number) => this.target.sentences[number]);
    let start = 0;
    for (const number of numbers) {
      const whole = this.target.textOf(number);
      const rest = text.length - start - whole.length;
      const same = edited.startsWith(text.slice(0, start)) && edited.endsWith(text.slice(start + whole.length));
      const own = edited.slice(start, edited.length - rest);
      if (same && edited.length >= start + rest) return { number, edited: own };
      start += whole.length;
    }
    return null;
  }

  remember() {
    this.before ??= this.target.sentences.map((_, number) => this.target.textOf(number));
  }

  changed() {
    this.bar.hidden = false;
    this.buttons.suggest.hidden = !this.suggests;
    this.onChange();
  }

  undo() {
    this.target.clear();
    this.before.forEach((text, number) => this.target.replace(number, text));
    this.before = null;
    this.bar.hidden = true;
    this.onChange();
    this.target.output.focus();
  }

  close() {
    if (this.editing) this.buttons.edit.focus();
    this.show(false);
  }

  show(editing) {
    this.editor.hidden = !editing;
    this.target.output.hidden = editing;
    if (editing) setFace(this.buttons.edit, "done", t("Done"));
    else setFace(this.buttons.edit, "pencil", t("Correct"));
  }
}
