// Weights of attention as shades.

import { element, percent } from "./elements.js";

const WORTH_WRITING = 0.05;

/** A cell of a heatmap, in percent; a pointer that rests on it is told `place` and the exact weight. */
export function heatCell(weight, place) {
  const figure = weight < WORTH_WRITING ? "" : `${Math.round(100 * weight)}`;
  return weighted("td", weight, `${place}: ${percent(weight)}`, [figure]);
}

/** The stronger, the darker; its text stays readable. */
export function weighted(name, weight, title, children) {
  const shade = weight > 0.75 ? " strong" : weight > 0.5 ? " middle" : "";
  const node = element(name, { class: `weighted${shade}`, title }, children);
  node.style.setProperty("--weight", weight);
  return node;
}

/** An empty table in `container`, with room for the labels of its rows; returns {head, body}. */
export function emptyTable(container, caption) {
  const head = element("tr", {}, [element("td")]);
  const body = element("tbody");
  container.replaceChildren(
    element("table", {}, [element("caption", { class: "unseen" }, [caption]), element("thead", {}, [head]), body]),
  );
  return { head, body };
}

export function columnHeader(label) {
  return element("th", { scope: "col" }, [element("span", {}, label)]);
}

export function rowHeader(label) {
  return element("th", { scope: "row" }, label);
}
