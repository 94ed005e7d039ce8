// Earlier translations, kept in this browser and nowhere else.

import { element } from "./elements.js";

const PLACE = "history"; // in the storage of this browser
const MOST = 50;
const LONGEST_TEXT = 10_000;

export class HistoryView {
  /** `onChoose` hears of an entry that somebody wants back; `nameOf` names a language. */
  constructor(root, { onChoose, nameOf }) {
    this.root = root;
    this.onChoose = onChoose;
    this.nameOf = nameOf;
    root.querySelector("button").addEventListener("click", () => this.keep([]));
    this.show(this.entries());
  }

  entries() {
    try {
      return JSON.parse(localStorage.getItem(PLACE)) ?? [];
    } catch {
      return []; // the browser keeps nothing for this page
    }
  }

  /** Add {text, translation, source, target}; a text that goes on replaces its beginning. */
  add(entry) {
    if (entry.text.length > LONGEST_TEXT) return;
    const same = ({ text, source, target }) =>
      source === entry.source && target === entry.target && (text === entry.text || entry.text.startsWith(text));
    const [newest, ...older] = this.entries();
    const others = older.filter((each) => each.text !== entry.text || !same(each));
    this.keep([entry, ...(newest && !same(newest) ? [newest] : []), ...others].slice(0, MOST));
  }

  keep(entries) {
    try {
      if (entries.length > 0) localStorage.setItem(PLACE, JSON.stringify(entries));
      else localStorage.removeItem(PLACE);
    } catch {
      return; // the storage is full or forbidden: what was kept before stays
    }
    this.show(entries);
  }

  show(entries) {
    this.root.hidden = entries.length === 0;
    this.root.querySelector("ol").replaceChildren(...entries.map((entry) => this.row(entry)));
  }

  row(entry) {
    const languages = `${this.nameOf(entry.source)} → ${this.nameOf(entry.target)}`;
    const button = element("button", { type: "button" }, [
      element("span", { class: "quiet" }, [languages]),
      element("span", { class: "line", lang: entry.source === "auto" ? "" : entry.source }, [entry.text]),
      element("span", { class: "line", lang: entry.target }, [entry.translation]),
    ]);
    button.addEventListener("click", () => this.onChoose(entry));
    return element("li", {}, [button]);
  }
}
