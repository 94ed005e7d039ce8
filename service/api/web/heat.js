// Attention weights as shades of a heatmap.

import { element, percent } from "./elements.js";

const WORTH_WRITING = 0.05;

/** Build a cell of a heatmap, in percent; its tooltip has `place` and the exact weight. */
export function heatCell(weight, place) {
  const figure = weight < WORTH_WRITING ? "" : `${Math.round(100 * weight)}`;
  return weighted("td", weight, `${place}: ${percent(weight)}`, [figure]);
}

/** Shade an element: a higher weight is stronger; its text stays readable. */
export function weighted(name, weight, title, children) {
  const node = element(name, { class: weight > 0.5 ? "weighted strong" : "weighted", title }, children);
  node.style.setProperty("--weight", weight);
  return node;
}

/** Build an empty table in `container`, with a column for row labels; returns {head, body}. */
export function emptyTable(container, caption) {
  const head = element("tr", {}, [element("td")]);
  const body = element("tbody");
  container.replaceChildren(
    element("table", {}, [element("caption", { class: "unseen" }, [caption]), element("thead", {}, [head]), body]),
  );
  return { head, body };
}

/** Build the header of one column, or of several that have the same label. */
export function columnHeader(label, columns = 1) {
  const span = columns > 1 ? { scope: "colgroup", colspan: columns } : { scope: "col" };
  return element("th", span, [element("span", {}, label)]);
}

export function rowHeader(label) {
  return element("th", { scope: "row" }, label);
}
