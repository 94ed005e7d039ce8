// The words of the page in its reader's language. English stands in the page and its modules; the files in `strings/`
// have the other languages, by the English words.

import { browser } from "./storage.js";

const INTERFACES = ["ar", "de", "en", "es", "fr", "hi", "pt"]; // the languages of the page
const RIGHT_TO_LEFT = ["ar"];
const KEPT = "interface"; // in the storage of this browser
const ATTRIBUTES = ["aria-label", "title", "placeholder", "alt", "data-empty", "aria-description"];

let table = {};
let names = null;
const given = {};

/** The language of the page: the one that was chosen, or the first of the browser's that there is. */
function interfaceLanguage() {
  const wanted = [browser.get(KEPT, ""), ...navigator.languages.map((code) => code.split("-")[0])];
  return wanted.find((code) => INTERFACES.includes(code)) ?? "en";
}

/** Offer the languages of the page in a list; a choice loads it again, after `onChoose` has heard of it. */
export function offerInterfaces(list, onChoose) {
  const ownName = (code) => capitalized(new Intl.DisplayNames([code], { type: "language" }).of(code));
  list.append(...INTERFACES.map((code) => new Option(ownName(code), code)));
  list.value = interfaceLanguage();
  list.addEventListener("change", () => {
    browser.set(KEPT, list.value);
    onChoose();
    location.reload();
  });
}

/** Translate the page, and from here on what its modules say. Without an answer of the server it stays English. */
export async function localize() {
  const code = interfaceLanguage();
  names = new Intl.DisplayNames([code], { type: "language" });
  try {
    if (code !== "en") table = await (await fetch(`web/strings/${code}.json`)).json();
    document.documentElement.lang = code;
    document.documentElement.dir = RIGHT_TO_LEFT.includes(code) ? "rtl" : "ltr";
    translateElements();
  } finally {
    document.documentElement.dataset.localized = "";
  }
}

/** Return English words in the page's language; `{name}` stands for one of the values. */
export function t(english, values = {}) {
  return (table[english] ?? english).replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

/** Give a name to a code that browsers have no name for. */
export function nameLanguage(code, name) {
  given[code] = name;
}

/** Return the name of a language within a sentence. */
export function languageName(code) {
  try {
    const name = names.of(code);
    return name === code ? (given[code] ?? code) : name;
  } catch {
    return given[code] ?? code; // no code of BCP 47
  }
}

/** Return the name of a language as an entry of a list. */
export function listName(code) {
  return capitalized(languageName(code));
}

function capitalized([first, ...rest]) {
  return first.toLocaleUpperCase() + rest.join("");
}

export function directionName(source, target) {
  return t("{source} → {target}", { source: languageName(source), target: languageName(target) });
}

export function number(value, options = {}) {
  return value.toLocaleString(document.documentElement.lang, options);
}

function translateElements() {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const [, before, words, after] = /^(\s*)(.*?)(\s*)$/s.exec(walker.currentNode.data);
    if (words) walker.currentNode.data = before + t(words.replace(/\s+/g, " ")) + after;
  }
  for (const name of ATTRIBUTES)
    for (const node of document.querySelectorAll(`[${name}]`)) node.setAttribute(name, t(node.getAttribute(name)));
}
