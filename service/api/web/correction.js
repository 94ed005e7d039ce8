// A translation that its reader changes: by another word, another sentence, or by hand. It can be taken back, and be
// sent to a server that stores suggestions.

import { setFace } from "./elements.js";
import { t } from "./texts.js";
import { difference } from "./word_menu.js";

const LONGEST_TERM_WORDS = 4;

export class Correction {
  /**
   * `bar`, `editor` and `buttons` are elements of the page. `onChange` hears that the translation is another one;
   * `onSuggest` sends it; `onTerm(change)` hears of a word that was corrected: {number, whole, start, end, text}.
   */
  constructor({ target, bar, editor }, buttons, { onChange, onSuggest, onTerm }) {
    Object.assign(this, { target, bar, editor, buttons, onChange });
    this.suggests = false;
    this.before = null; // the translation as it came
    this.term = null;
    buttons.edit.addEventListener("click", () => (this.editing ? this.finish() : this.edit()));
    buttons.undo.addEventListener("click", () => this.undo());
    buttons.suggest.addEventListener("click", async () => (buttons.suggest.hidden = await onSuggest()));
    buttons.keep.addEventListener("click", () => onTerm(this.term));
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
    this.changed(null);
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
    this.changed(place && this.termOf(place));
  }

  /** The only sentence that differs, with both texts; null if there is none. */
  place(text, edited) {
    const numbers = [...this.target.sentences.keys()].filter((number) => this.target.sentences[number]);
    let start = 0;
    for (const number of numbers) {
      const whole = this.target.textOf(number);
      const rest = text.length - start - whole.length;
      const same = edited.startsWith(text.slice(0, start)) && edited.endsWith(text.slice(start + whole.length));
      const own = edited.slice(start, edited.length - rest);
      if (same && edited.length >= start + rest) return { number, whole, edited: own };
      start += whole.length;
    }
    return null;
  }

  /** What was written instead of which part, if it is short enough for a term. */
  termOf({ number, whole, edited }) {
    const [before, text] = difference(whole, edited);
    const [, old] = difference(edited, whole);
    const words = text.replace(/[.,;:!?…]+\s*$/, "").trim();
    const start = before.length - (whole.length - whole.trimStart().length);
    const short = words !== "" && old.trim() !== "" && words.split(/\s+/).length <= LONGEST_TERM_WORDS;
    return short ? { number, whole: whole.trim(), start, end: start + old.trim().length, text: words } : null;
  }

  remember() {
    this.before ??= this.target.sentences.map((_, number) => this.target.textOf(number));
  }

  changed(term) {
    this.term = term;
    this.bar.hidden = false;
    this.buttons.suggest.hidden = !this.suggests;
    this.buttons.keep.hidden = term === null;
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
