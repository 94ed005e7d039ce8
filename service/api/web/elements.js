// Helpers for elements of the page.

import { t } from "./texts.js";

const SVG = "http://www.w3.org/2000/svg";

/** A part of the page, whose elements are found within its root. */
export class View {
  constructor(root) {
    this.root = root;
  }

  find(selector) {
    return this.root.querySelector(selector);
  }
}

/** Build an element with attributes and children; strings become text, never HTML. */
export function element(name, attributes = {}, children = []) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== "") node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/** Build a button that shows one of the page's symbols; its label is for the pointer and for screen readers. */
export function iconButton(symbol, label, onClick) {
  const button = element("button", { class: "icon", type: "button" });
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("aria-hidden", "true");
  drawing.append(document.createElementNS(SVG, "use"));
  button.append(drawing);
  setFace(button, symbol, label);
  button.addEventListener("click", onClick);
  return button;
}

function symbolOf(button) {
  return button.querySelector("use").getAttribute("href").slice(1);
}

/** Give a button another symbol and label. */
export function setFace(button, symbol, label) {
  button.querySelector("use").setAttribute("href", `#${symbol}`);
  button.ariaLabel = button.title = label;
}

export function percent(share) {
  return share < 0.001 ? "<0.1 %" : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

export function decimal(number) {
  return number.toFixed(3).replace("-", "−");
}

const CASE_MARKS = {
  "⇧": () => t("the next letter is upper case"),
  "⇪": () => t("the next words are upper case"),
  "⇩": () => t("the end of upper case"),
};

/** True for a token that only marks upper case, and has no text of its own. */
export function isCaseMark(text) {
  return Object.hasOwn(CASE_MARKS, text);
}

/** Render a token visibly: its leading space as a dot, and control tokens by name. */
export function tokenLabel(text) {
  const word = text.trimStart();
  if (isCaseMark(text)) return [element("span", { class: "case-mark", title: CASE_MARKS[text]() }, [text])];
  if (word === "") return [element("span", { class: "special" }, [text === "" ? t("end") : t("space")])];
  return word === text ? [text] : [element("span", { class: "dot" }, ["·"]), word];
}

/** Copy a text; `button` says so for a moment. */
export async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Browsers deny the clipboard to pages that were loaded by plain HTTP from another machine.
    copyBySelection(text);
  }
  const { dataset } = button;
  dataset.label ??= button.title;
  dataset.symbol ??= symbolOf(button);
  setFace(button, "done", t("Copied"));
  setTimeout(() => setFace(button, dataset.symbol, dataset.label), 2000);
}

function copyBySelection(text) {
  const focused = document.activeElement;
  const area = document.body.appendChild(document.createElement("textarea"));
  area.value = text;
  area.select();
  document.execCommand("copy");
  area.remove();
  focused?.focus();
}
