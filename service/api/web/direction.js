// The direction of the translation: the two lists of languages, what is chosen first, what is detected, and how it is
// turned.

import { browser, readAddress } from "./storage.js";
import { languageName, listName, nameLanguage, t } from "./texts.js";

export const AUTOMATIC = "auto";
const DETECTED = { nb: "no" }; // languages that the detector has other codes for
const LONGEST_CODE = 16; // of a language
const KEPT = "languages"; // in the storage of this browser

const $ = (id) => document.getElementById(id);

export class Direction {
  /** `onChange` hears of a direction that the page's reader chose. */
  constructor(onChange) {
    this.onChange = onChange;
    [this.from, this.to] = ["from", "to"].map($);
    this.languages = []; // of the server
    this.before = {};
    this.found = null; // the language that the text was detected to be in
    this.isChosen = false; // by a reader, not by the page
    for (const list of [this.from, this.to]) list.addEventListener("change", () => this.choose());
  }

  get source() {
    return this.from.value;
  }

  get target() {
    return this.to.value;
  }

  /** The languages to ask the server for. */
  get chosen() {
    return { source: this.source, target: this.target };
  }

  /** The same, with the language of the text as far as it is known. */
  get known() {
    return { source: this.found ?? this.source, target: this.target };
  }

  /** Take over a server's languages; choose those of the address, the last ones, or those that the browser prefers. */
  offer(known, { source, target }) {
    this.fill(known, source.code === AUTOMATIC);
    this.select({ target: target.code });
    if (this.source === AUTOMATIC) this.select({ target: preferred(this.targetsOf(AUTOMATIC))[0] });
    const kept = browser.get(KEPT, null);
    const wanted = readAddress();
    this.isChosen ||= Boolean(kept) || wanted.isChosen;
    this.select(kept ?? {});
    this.select(wanted);
    if (wanted.target && wanted.target !== this.target) {
      const language = wanted.target.slice(0, LONGEST_CODE);
      this.note(t("The link's language “{language}” is not available.", { language }));
    }
  }

  /** Fill the lists with the languages of a server, which perhaps detects the language of a text. */
  fill(known, detects) {
    // A language is one of its own targets, for clients that want a copy; some languages are only targets.
    this.languages = known
      .map((each) => ({ ...each, targets: each.targets.filter((code) => code !== each.code) }))
      .filter(({ targets }) => targets.length > 0);
    for (const { code, name } of known) nameLanguage(code, name);
    this.from.replaceChildren(...options(this.languages.map(({ code }) => code)));
    if (detects) this.from.prepend(new Option(t("Detect language"), AUTOMATIC, true, true));
    for (const list of [this.from, this.to]) list.disabled = false;
  }

  /** The reader chooses languages, or has chosen them in the lists. */
  choose(direction) {
    this.isChosen = true;
    this.note("");
    this.select(direction);
    browser.set(KEPT, this.chosen);
    this.onChange();
  }

  /** Select languages in the lists, as far as they are known; a list stays as it is without one. */
  select({ source = this.source, target = this.target } = {}) {
    if ([...this.from.options].some(({ value }) => value === source)) this.from.value = source;
    const targets = this.targetsOf(this.source);
    const downloadable = this.language(this.source)?.downloadable ?? [];
    this.to.replaceChildren(...options(targets, downloadable));
    // Who chooses the target as the source wants the other direction.
    const wanted = [target, this.before.target, this.before.source, ...preferred(targets), targets[0]];
    this.to.value = wanted.find((code) => targets.includes(code));
    this.before = this.chosen;
    this.show(null);
  }

  /** The target for a text in a language: where nobody has chosen one, what the browser prefers, or the only one. */
  targetFor(found) {
    const { source, target } = this.chosen;
    if (this.isChosen || source !== AUTOMATIC) return target;
    const targets = this.targetsOf(found);
    const [best = target] = targets.length > 1 ? preferred(targets) : targets;
    return best;
  }

  /** Select the target for a text in a language. Returns whether it is another than before. */
  suit(found) {
    const target = this.targetFor(found);
    if (target === this.target) return false;
    this.select({ target });
    return true;
  }

  /** Turn the direction, after `take` has heard of it; or say that the server does not translate in the other one. */
  swap(take) {
    const { source: to, target: from } = this.known;
    const back = this.backwards();
    if (back) {
      take();
      this.choose(back);
    } else {
      const names = { from: languageName(from), to: languageName(to) };
      this.note(t("This server does not translate from {from} into {to}.", names));
    }
  }

  /** The other direction as {source, target}; null if the server does not translate in it. */
  backwards() {
    const { source } = this.known;
    const certain = source !== AUTOMATIC && source !== this.target;
    const target = certain ? source : this.partner(this.target);
    return this.translates(this.target, target) ? { source: this.target, target } : null;
  }

  /** The language that a text in `code` most probably is translated into. */
  partner(code) {
    const targets = this.targetsOf(code);
    const wanted = [this.before.source, this.before.target, ...preferred(targets), targets[0]];
    return wanted.find((each) => targets.includes(each));
  }

  translates(source, target) {
    return Boolean(this.language(source)?.targets.includes(target));
  }

  language(code) {
    return this.languages.find((each) => each.code === code);
  }

  /** The code under which the server knows a language that a detector names, which knows no scripts and countries. */
  codeOf(name) {
    const codes = this.languages.flatMap(({ code, targets }) => [code, ...targets]);
    const detected = (code) => DETECTED[base(code)] ?? base(code);
    return codes.find((code) => code === name) ?? codes.find((code) => detected(code) === name) ?? name;
  }

  targetsOf(code) {
    if (code !== AUTOMATIC) return this.language(code)?.targets ?? [];
    return [...new Set(this.languages.flatMap(({ targets }) => targets))];
  }

  /** Show the language that a text was detected to be in, and one that its translation goes through. */
  detect({ source, isDetected, pivot }) {
    this.show(isDetected ? source : null);
    const notes = isDetected ? [t("detected: {language}", { language: languageName(source) })] : [];
    if (pivot) notes.push(t("by way of {language}", { language: languageName(pivot) }));
    $("detected").textContent = notes.join(", ");
  }

  show(found) {
    this.found = found;
    $("text").lang = this.source === AUTOMATIC ? "" : this.source;
    for (const id of ["output", "editor"]) $(id).lang = this.target;
    $("detected").textContent = "";
    $("swap").setAttribute("aria-disabled", String(!this.backwards()));
  }

  note(words) {
    $("note").textContent = words;
  }
}

/** The languages among `codes` that the reader's browser asks for, the first one first. */
export function preferred(codes) {
  return navigator.languages.flatMap((wanted) => [
    ...codes.filter((code) => code.toLowerCase() === wanted.toLowerCase()),
    ...codes.filter((code) => base(code) === base(wanted)),
  ]);
}

function base(code) {
  return code.split("-")[0].toLowerCase();
}

function options(codes, downloadable = []) {
  const sorted = [...codes].sort((one, other) => languageName(one).localeCompare(languageName(other)));
  return sorted.map((code) => {
    const language = listName(code);
    const label = downloadable.includes(code) ? t("{language} (is downloaded first)", { language }) : language;
    return new Option(label, code);
  });
}
