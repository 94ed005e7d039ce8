// The lists below the translation: earlier translations and the reader's terms, which this browser keeps and sends to
// nobody else, and units of the server's translation memories.

import { AUTOMATIC } from "./direction.js";
import { element, iconButton, View } from "./elements.js";
import { browser } from "./storage.js";
import { directionName, listName, t } from "./texts.js";

const MOST_TRANSLATIONS = 50;
const LONGEST_TEXT = 10_000;

/** A list of objects whose `fields` are strings, in the storage of this browser at `name`; `row` shows one of them. */
class KeptList extends View {
  constructor(root, name, fields) {
    super(root);
    Object.assign(this, { name, fields });
  }

  get entries() {
    return browser.list(this.name, this.fields);
  }

  keep(entries) {
    browser.set(this.name, entries.length > 0 ? entries : null);
    this.show();
  }

  remove(number) {
    this.keep(this.entries.filter((_, each) => each !== number));
  }

  show() {
    this.find("ol").replaceChildren(...this.entries.map((each, number) => this.row(each, number)));
  }
}

export class HistoryView extends KeptList {
  /** `onChoose` hears of an entry that somebody wants back. */
  constructor(root, onChoose) {
    super(root, "history", ["text", "translation", "source", "target"]);
    this.onChoose = onChoose;
    this.find("button").addEventListener("click", () => this.keep([]));
    this.show();
  }

  /** Add {text, translation, source, target}; a text that goes on replaces its beginning. */
  add(entry) {
    if (entry.text.length > LONGEST_TEXT) return;
    const same = ({ text, source, target }) =>
      source === entry.source && target === entry.target && (text === entry.text || entry.text.startsWith(text));
    const [newest, ...older] = this.entries;
    const others = older.filter((each) => each.text !== entry.text || !same(each));
    this.keep([entry, ...(newest && !same(newest) ? [newest] : []), ...others].slice(0, MOST_TRANSLATIONS));
  }

  remove(number) {
    super.remove(number);
    const { children } = this.find("ol");
    (children[Math.min(number, children.length - 1)]?.lastChild ?? this.find("summary")).focus();
  }

  show() {
    super.show();
    this.root.hidden = this.entries.length === 0;
  }

  row(entry, number) {
    const { source, target, text, translation } = entry;
    const languages = source === AUTOMATIC ? listName(target) : directionName(source, target);
    const lines = [line(text, source === AUTOMATIC ? "" : source), line(translation, target)];
    const button = element("button", { class: "entry", type: "button" }, [quiet(languages), ...lines]);
    button.addEventListener("click", () => this.onChoose(entry));
    return element("li", {}, [button, iconButton("bin", t("Delete this entry"), () => this.remove(number))]);
  }
}

/** The reader's glossary: terms that are sent with each text in which they occur. */
export class TermsView extends KeptList {
  /** `direction` returns the languages of the text, {source, target}; `onChange` hears of other terms. */
  constructor(root, { direction, onChange }) {
    super(root, "terms", ["term", "translation", "source", "target"]);
    Object.assign(this, { direction, onChange });
    this.form = this.find("form");
    this.form.addEventListener("submit", (event) => this.submit(event));
    this.show();
  }

  /** The terms of a text in the chosen languages, as a request has them, or of any text; undefined without any. */
  glossary(text, { source, target }) {
    const occurs = (term) => text === null || text.toLowerCase().includes(term.toLowerCase());
    const found = this.entries.filter(
      (each) => each.target === target && [each.source, AUTOMATIC].includes(source) && occurs(each.term),
    );
    return found.length > 0 ? Object.fromEntries(found.map(({ term, translation }) => [term, translation])) : undefined;
  }

  /** Show the form with a term that somebody may want to keep. */
  offer(term, translation) {
    this.root.open = true;
    [this.form.elements.term.value, this.form.elements.translation.value] = [term, translation];
    this.form.elements[term === "" ? "term" : "translation"].focus();
  }

  submit(event) {
    event.preventDefault();
    const { term, translation } = this.form.elements;
    const added = { ...this.direction(), term: term.value.trim(), translation: translation.value.trim() };
    if (added.term === "" || added.translation === "") return;
    // It replaces one of the same words in the same direction.
    const same = (each) => ["source", "target", "term"].every((field) => each[field] === added[field]);
    this.keep([added, ...this.entries.filter((each) => !same(each))]);
    this.form.reset();
    term.focus();
  }

  keep(terms) {
    super.keep(terms);
    this.onChange();
  }

  remove(number) {
    super.remove(number);
    this.form.elements.term.focus();
  }

  row({ source, target, term, translation }, number) {
    return element("li", {}, [
      element("span", { class: "entry" }, [
        quiet(directionName(source, target)),
        element("span", { dir: "auto", lang: source }, [term]),
        element("b", { dir: "auto", lang: target }, [translation]),
      ]),
      iconButton("bin", t("Delete this term"), () => this.remove(number)),
    ]);
  }
}

export class MemoryView extends View {
  /** Show what the sentences of a translation are like, of `languages`; of none, nothing. */
  show(translation, languages) {
    const found = translation?.sentences.flatMap(({ matches = [] }) => matches) ?? [];
    found.sort((one, other) => one.score - other.score);
    const units = new Map(found.map((unit) => [`${unit.source}\n${unit.target}`, unit]));
    this.root.hidden = units.size === 0;
    const rows = [...units.values()].reverse().map(({ source, target, score }) => {
      const lines = [line(source, languages.source), line(target, languages.target)];
      return element("li", {}, [element("div", { class: "entry" }, [quiet(`${Math.floor(score)} %`), ...lines])]);
    });
    this.find("ol").replaceChildren(...rows);
  }
}

function quiet(words) {
  return element("span", { class: "quiet" }, [words]);
}

function line(text, language) {
  return element("span", { class: "line", dir: "auto", lang: language }, [text]);
}
