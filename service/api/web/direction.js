// The direction of the translation on the page: what is chosen first, what is detected, and how it is turned.

import { readAddress } from "./address.js";
import { AUTOMATIC, Languages, preferred } from "./languages.js";
import { browser } from "./storage.js";
import { languageName, t } from "./texts.js";

const LONGEST_CODE = 16; // of a language
const KEPT = "languages"; // in the storage of this browser

const $ = (id) => document.getElementById(id);

export class Direction {
  /** `onChange` hears of a direction that the page's reader chose. */
  constructor(onChange) {
    this.onChange = onChange;
    const [from, to] = ["from", "to"].map($);
    this.found = null; // the language that the text was detected to be in
    this.isChosen = false; // by a reader, not by the page
    this.languages = new Languages({ from, to, onChange: () => this.show(null) });
    for (const list of [from, to]) list.addEventListener("change", () => this.choose());
  }

  /** The languages to ask the server for. */
  get chosen() {
    return this.languages.chosen;
  }

  /** The same, with the language of the text as far as it is known. */
  get known() {
    return { source: this.found ?? this.languages.source, target: this.languages.target };
  }

  /** Take over a server's languages; choose those of the address, the last ones, or those that the browser prefers. */
  offer(known, { source, target }) {
    const { languages } = this;
    languages.fill(known, source.code === AUTOMATIC);
    languages.choose({ target: target.code });
    if (languages.source === AUTOMATIC) languages.choose({ target: preferred(languages.targetsOf(AUTOMATIC))[0] });
    const kept = browser.get(KEPT, null);
    const wanted = readAddress();
    this.isChosen ||= Boolean(kept) || wanted.isChosen;
    languages.choose(kept ?? {});
    languages.choose(wanted);
    if (wanted.target && wanted.target !== languages.target) {
      const language = wanted.target.slice(0, LONGEST_CODE);
      this.note(t("The link's language “{language}” is not available.", { language }));
    }
  }

  choose(direction) {
    this.isChosen = true;
    this.note("");
    this.languages.choose(direction);
    browser.set(KEPT, this.chosen);
    this.onChange();
  }

  /** The target for a text in a language: where nobody has chosen one, what the browser prefers, or the only one. */
  targetFor(found) {
    const { source, target } = this.chosen;
    if (this.isChosen || source !== AUTOMATIC) return target;
    const targets = this.languages.targetsOf(found);
    const [best = target] = targets.length > 1 ? preferred(targets) : targets;
    return best;
  }

  /** Choose the target for a text in a language. Returns whether it is another than before. */
  suit(found) {
    const target = this.targetFor(found);
    if (target === this.chosen.target) return false;
    this.languages.choose({ target });
    return true;
  }

  /** Turn the direction, after `take` has heard of it; or say that the server does not translate in the other one. */
  swap(take) {
    const { source: to, target: from } = this.known;
    const back = this.languages.backwards(this.found);
    if (back) {
      take();
      this.choose(back);
    } else {
      const names = { from: languageName(from), to: languageName(to) };
      this.note(t("This server does not translate from {from} into {to}.", names));
    }
  }

  /** Show the language that a text was detected to be in, and one that its translation goes through. */
  detect({ source, isDetected, pivot }) {
    this.show(isDetected ? source : null);
    const notes = isDetected ? [t("detected: {language}", { language: languageName(source) })] : [];
    if (pivot) notes.push(t("by way of {language}", { language: languageName(pivot) }));
    $("detected").textContent = notes.join(", ");
  }

  show(found) {
    const { source, target } = this.chosen;
    this.found = found;
    $("text").lang = source === AUTOMATIC ? "" : source;
    for (const id of ["output", "editor"]) $(id).lang = target;
    $("detected").textContent = "";
    $("swap").setAttribute("aria-disabled", String(!this.languages.backwards(found)));
  }

  note(words) {
    $("note").textContent = words;
  }
}
