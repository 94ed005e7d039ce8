// The reader's glossary: terms that this browser keeps, and sends with each text in which they occur.

import { element, iconButton } from "./elements.js";
import { AUTOMATIC } from "./languages.js";
import { browser } from "./storage.js";
import { directionName, t } from "./texts.js";

const PLACE = "terms"; // in the storage of this browser

export class TermsView {
  /** `direction` returns the languages of the text, {source, target}; `onChange` hears of other terms. */
  constructor(root, { direction, onChange }) {
    Object.assign(this, { root, direction, onChange });
    this.form = root.querySelector("form");
    this.form.addEventListener("submit", (event) => this.submit(event));
    this.show();
  }

  get terms() {
    return browser.list(PLACE, ["term", "translation", "source", "target"]);
  }

  /** The terms of a text in the chosen languages, as a request has them, or of any text; undefined without any. */
  glossary(text, { source, target }) {
    const occurs = (term) => text === null || text.toLowerCase().includes(term.toLowerCase());
    const found = this.terms.filter(
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
    if (term.value.trim() === "" || translation.value.trim() === "") return;
    this.add(term.value.trim(), translation.value.trim());
    this.form.reset();
    term.focus();
  }

  /** Keep a term of the present direction; it replaces one of the same words. */
  add(term, translation) {
    const { source, target } = this.direction();
    const same = (each) => each.source === source && each.target === target && each.term === term;
    this.keep([{ source, target, term, translation }, ...this.terms.filter((each) => !same(each))]);
  }

  keep(terms) {
    browser.set(PLACE, terms.length > 0 ? terms : null);
    this.show();
    this.onChange();
  }

  show() {
    this.root.querySelector("ol").replaceChildren(...this.terms.map((each, number) => this.row(each, number)));
  }

  row({ source, target, term, translation }, number) {
    const remove = () => {
      this.keep(this.terms.filter((_, each) => each !== number));
      this.form.elements.term.focus();
    };
    return element("li", {}, [
      element("span", { class: "entry" }, [
        element("span", { class: "quiet" }, [directionName(source, target)]),
        element("span", { dir: "auto", lang: source }, [term]),
        element("b", { dir: "auto", lang: target }, [translation]),
      ]),
      iconButton("bin", t("Delete this term"), remove),
    ]);
  }
}
