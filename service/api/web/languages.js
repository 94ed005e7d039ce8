// The two lists of languages: what the server knows, what is chosen, and whether it can be swapped.

import { languageName, listName, nameLanguage, t } from "./texts.js";

export const AUTOMATIC = "auto";
const DETECTED = { nb: "no" }; // languages that the detector has other codes for

export class Languages {
  /** `from` and `to` are the lists of the page; `onChange` hears of each new choice. */
  constructor({ from, to, onChange }) {
    Object.assign(this, { from, to, onChange });
    this.known = [];
    this.before = {};
  }

  get source() {
    return this.from.value;
  }

  get target() {
    return this.to.value;
  }

  get chosen() {
    return { source: this.source, target: this.target };
  }

  /** Fill the lists with the languages of a server, which perhaps detects the language of a text. */
  fill(known, detects) {
    // A language is one of its own targets, for clients that want a copy; some languages are only targets.
    this.known = known
      .map((each) => ({ ...each, targets: each.targets.filter((code) => code !== each.code) }))
      .filter(({ targets }) => targets.length > 0);
    for (const { code, name } of known) nameLanguage(code, name);
    this.from.replaceChildren(...options(this.known.map(({ code }) => code)));
    if (detects) this.from.prepend(new Option(t("Detect language"), AUTOMATIC, true, true));
    for (const list of [this.from, this.to]) list.disabled = false;
  }

  /** Choose languages, as far as they are known; a list stays as it is without one. */
  choose({ source = this.source, target = this.target } = {}) {
    if ([...this.from.options].some(({ value }) => value === source)) this.from.value = source;
    const targets = this.targetsOf(this.source);
    const downloadable = this.language(this.source)?.downloadable ?? [];
    this.to.replaceChildren(...options(targets, downloadable));
    // Who chooses the target as the source wants the other direction.
    const wanted = [target, this.before.target, this.before.source, ...preferred(targets), targets[0]];
    this.to.value = wanted.find((code) => targets.includes(code));
    this.before = this.chosen;
    this.onChange();
  }

  /** The other direction as {source, target}; null if the server does not translate in it. */
  backwards(detected) {
    const source = this.source === AUTOMATIC ? detected : this.source;
    const certain = source && source !== this.target;
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
    return this.known.find((each) => each.code === code);
  }

  /** The code under which the server knows a language that a detector names, which knows no scripts and countries. */
  codeOf(name) {
    const codes = this.known.flatMap(({ code, targets }) => [code, ...targets]);
    const detected = (code) => DETECTED[base(code)] ?? base(code);
    return codes.find((code) => code === name) ?? codes.find((code) => detected(code) === name) ?? name;
  }

  targetsOf(code) {
    if (code !== AUTOMATIC) return this.language(code)?.targets ?? [];
    return [...new Set(this.known.flatMap(({ targets }) => targets))];
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
