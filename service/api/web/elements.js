// Helpers that build elements of the page.

/** Build an element with attributes and children; strings become text, never HTML. */
export function element(name, attributes = {}, children = []) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== "") node.setAttribute(key, value);
  node.append(...children);
  return node;
}

export function percent(share) {
  return share < 0.001 ? "<0.1 %" : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

export function decimal(number) {
  return number.toFixed(3).replace("-", "−");
}

const CASE_MARKS = {
  "⇧": "the next letter is upper case",
  "⇪": "the next words are upper case",
  "⇩": "the end of upper case",
};

/** True for a token that only marks upper case, and has no text of its own. */
export function isCaseMark(text) {
  return Object.hasOwn(CASE_MARKS, text);
}

/** Render a token visibly: its leading space as a dot, and control tokens by name. */
export function tokenLabel(text) {
  const word = text.trimStart();
  if (isCaseMark(text)) return [element("span", { class: "case-mark", title: CASE_MARKS[text] }, [text])];
  if (word === "") return [element("span", { class: "special" }, [text === "" ? "end" : "space"])];
  return word === text ? [text] : [element("span", { class: "dot" }, ["·"]), word];
}
