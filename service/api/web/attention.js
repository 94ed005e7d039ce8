// Attention weights as shades of a heatmap; and the masked self-attention of one sentence: for each token, the weights
// of the tokens before it.

import { element, percent, tokenLabel, View } from "./elements.js";
import { number, t } from "./texts.js";

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

export class Triangle extends View {
  /** `onSelect(index)` hears of a row that was clicked. */
  constructor(root, onSelect) {
    super(root);
    this.onSelect = onSelect;
    this.layer = -1; // the last one, until somebody chooses
    this.find("#layer").addEventListener("change", (event) => this.chooseLayer(Number(event.target.value)));
  }

  open(sentence) {
    this.sentence = sentence;
    this.chosen = -1;
    this.table = emptyTable(this.find("#triangle"), t("Self-attention of each token over those before it, in percent"));
  }

  /** Catch up with the tokens that have come since. */
  grow() {
    const { tokens } = this.sentence;
    this.root.hidden = !tokens[0]?.self_attention;
    if (this.root.hidden) return;
    const layers = tokens[0].self_attention.length;
    this.find("#own-weights").hidden = layers === 0;
    this.find("#no-own-weights").hidden = layers > 0;
    if (layers === 0) return;
    this.listLayers(layers);
    const { head, body } = this.table;
    for (const token of tokens.slice(body.children.length)) this.append(token);
    const columns = head.children.length;
    for (const row of body.children) {
      const masked = row.lastChild;
      masked.colSpan = Math.max(columns - (row.children.length - 1), 1);
      masked.hidden = row.children.length > columns;
    }
  }

  listLayers(count) {
    const select = this.find("#layer");
    if (select.options.length === count) return;
    const label = (layer) => t("{layer} of {count}", { layer: number(layer + 1), count: number(count) });
    select.replaceChildren(...Array.from({ length: count }, (_, layer) => new Option(label(layer), layer)));
    if (this.layer < 0 || this.layer >= count) this.layer = count - 1;
    select.value = this.layer;
  }

  append(token) {
    const { head, body } = this.table;
    const index = body.children.length;
    const weights = token.self_attention[this.layer];
    for (let place = head.children.length - 1; place < weights.length; place += 1) {
      head.append(columnHeader(this.placeLabel(place)));
    }
    const cells = weights.map((weight, place) => heatCell(weight, head.children[place + 1].textContent));
    const masked = element("td", { class: "masked", title: t("masked: not written yet") }, [
      element("span", { class: "unseen" }, [t("masked")]),
    ]);
    const row = element("tr", {}, [rowHeader(tokenLabel(token.piece)), ...cells, masked]);
    row.addEventListener("click", () => this.onSelect(index));
    body.append(row);
  }

  /** The decoder reads its start, perhaps a tag of the language, and then its own tokens. */
  placeLabel(place) {
    const { tokens } = this.sentence;
    const first = tokens[0].self_attention[0].length;
    if (place >= first) return tokenLabel(tokens[place - first].piece);
    return [element("span", { class: "special" }, [place === 0 ? t("start") : t("tag")])];
  }

  choose(index) {
    const rows = this.table.body.children;
    rows[this.chosen]?.classList.remove("selected");
    rows[index]?.classList.add("selected");
    this.chosen = index;
    this.showRead(index);
  }

  showRead(index) {
    const { tokens } = this.sentence;
    const weights = tokens[index].self_attention?.[this.layer] ?? [];
    const before = weights.length - index;
    const parts = weights.flatMap((weight, place) => {
      const shade = (label) => weighted("span", weight, percent(weight), label);
      if (place < before) return [shade(this.placeLabel(place)), " "];
      const { text, piece } = tokens[place - before];
      const written = text || piece; // a part of a character has no text yet
      const word = written.trimStart();
      return [written.slice(0, written.length - word.length), shade([word])];
    });
    this.find("#read").replaceChildren(...parts);
  }

  chooseLayer(layer) {
    const { chosen } = this;
    this.layer = layer;
    this.open(this.sentence);
    this.grow();
    this.choose(chosen);
  }
}
