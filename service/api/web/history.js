// Earlier translations, kept in this browser and nowhere else.

import { element, iconButton } from "./elements.js";
import { AUTOMATIC } from "./languages.js";
import { browser } from "./storage.js";
import { directionName, listName, t } from "./texts.js";

const PLACE = "history"; // in the storage of this browser
const MOST = 50;
const LONGEST_TEXT = 10_000;

export class HistoryView {
  /** `onChoose` hears of an entry that somebody wants back. */
  constructor(root, onChoose) {
    this.root = root;
    this.onChoose = onChoose;
    root.querySelector("button").addEventListener("click", () => this.keep([]));
    this.show(this.entries());
  }

  entries() {
    return browser.list(PLACE, ["text", "translation", "source", "target"]);
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

  remove(number) {
    this.keep(this.entries().filter((_, each) => each !== number));
    const { children } = this.root.querySelector("ol");
    (children[Math.min(number, children.length - 1)]?.lastChild ?? this.root.querySelector("summary")).focus();
  }

  keep(entries) {
    browser.set(PLACE, entries.length > 0 ? entries : null);
    this.show(entries);
  }

  show(entries) {
    this.root.hidden = entries.length === 0;
    this.root.querySelector("ol").replaceChildren(...entries.map((entry, number) => this.row(entry, number)));
  }

  row(entry, number) {
    const { source, target, text, translation } = entry;
    const languages = source === AUTOMATIC ? listName(target) : directionName(source, target);
    const button = element("button", { class: "entry", type: "button" }, [
      element("span", { class: "quiet" }, [languages]),
      element("span", { class: "line", dir: "auto", lang: source === AUTOMATIC ? "" : source }, [text]),
      element("span", { class: "line", dir: "auto", lang: target }, [translation]),
    ]);
    button.addEventListener("click", () => this.onChoose(entry));
    return element("li", {}, [button, iconButton("bin", t("Delete this entry"), () => this.remove(number))]);
  }
}
