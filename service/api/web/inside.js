// The view "inside the model": one sentence, one chosen token, and the weights, candidates and hypotheses of its step.

import { decimal, element, isCaseMark, percent, tokenLabel, View } from "./elements.js";
import { number, t } from "./texts.js";
import { columnHeader, emptyTable, heatCell, rowHeader, Triangle, weighted } from "./attention.js";

class Hypotheses extends View {
  /** The hypotheses after the step of the `newest` token, or the last ones there are. */
  showLive({ steps, tokens }, newest) {
    const at = Math.min(steps.length, newest) - 1;
    this.find("#beam-view").hidden = steps.length === 0;
    if (at < 0) return;
    const written = tokens.map((token) => token.text).join("");
    const ours = steps[at].filter(({ text }) => written.startsWith(text));
    const own = ours.sort((one, other) => other.text.length - one.text.length)[0];
    this.find("#beam-step").textContent = number(at + 1);
    const rows = steps[at].map((each) => scored(each.text.trim() || "…", each.score, each === own));
    this.find("#live").replaceChildren(...rows);
  }

  showFinished({ text, score, alternatives }) {
    const kept = alternatives ? [{ text, score }, ...alternatives] : [];
    const rows = kept.map((each, rank) => scored(each.text.trim(), each.score, rank === 0));
    const none = element("li", { class: "quiet" }, [t("Choose a beam width above 1 to see them.")]);
    this.find("#hypotheses").replaceChildren(...(rows.length > 0 ? rows : [none]));
  }
}

function scored(text, score, chosen) {
  const label = [element("span", { dir: "auto" }, [text])];
  return bar(label, Math.exp(score), { chosen, value: decimal(score), block: true });
}

/** Build a row with a bar; `block` has its label above the bar. */
function bar(label, share, { chosen, value = percent(share), block = false }) {
  const item = element("li", { class: `bar${chosen ? " chosen-one" : ""}${block ? " block" : ""}` }, [
    element("span", { class: "label" }, label),
    element("span", { class: "track" }, [element("span", { class: "fill" })]),
    element("span", { class: "value" }, [value]),
  ]);
  item.querySelector(".fill").style.setProperty("--share", share);
  return item;
}

export class InsideView extends View {
  /** `onSelect(sentence, token)` hears of each selection: a token, or null. */
  constructor(root, onSelect) {
    super(root);
    this.onSelect = onSelect;
    this.translation = null;
    this.sentence = null;
    this.spans = null;
    this.chosen = -1;
    this.following = true;
    this.hypotheses = new Hypotheses(root);
    this.triangle = new Triangle(this.find("#own"), (index) => this.chooseByHand(index));
    this.find("#tokens").addEventListener("keydown", (event) => this.moveByKey(event));
    this.find("#sentence").addEventListener("change", (event) => this.chooseSentence(Number(event.target.value)));
  }

  /** Begin with a new translation, or with none. */
  show(translation) {
    this.translation = translation;
    this.sentence = null;
    this.following = true;
    this.find("#inside-view").hidden = true;
    this.find("#inside-empty").hidden = false;
    this.find("#sentence").replaceChildren();
    this.onSelect(null, null);
  }

  /** Catch up with what has come since; follows the newest token until somebody chooses one. */
  grow() {
    const written = (this.translation?.sentences ?? []).filter(
      ({ tokens, steps }) => steps.length > 0 || tokens.some((token) => token.self_attention),
    );
    if (written.length === 0) return;
    this.find("#inside-view").hidden = false;
    this.find("#inside-empty").hidden = true;
    this.listSentences(written);
    this.openSentence(this.following || this.sentence === null ? written.at(-1) : this.sentence);
    this.appendTokens();
    if (this.following) this.choose(this.sentence.tokens.length - 1);
    else if (this.chosen < 0) this.choose(0);
    this.hypotheses.showLive(this.sentence, this.newest);
    this.hypotheses.showFinished(this.sentence);
  }

  /** Everything has come: from here on the reader leads. */
  finish() {
    if (!this.following || this.sentence === null) return;
    this.chooseSentence(Number(this.find("#sentence").options[0].value));
    this.onSelect(null, null); // what nobody chose is not marked in the text
  }

  /** The number of tokens up to the chosen one; infinitely many while it follows them. */
  get newest() {
    return this.following || this.chosen < 0 ? Infinity : this.chosen + 1;
  }

  listSentences(written) {
    const select = this.find("#sentence");
    for (const { number } of written.slice(select.options.length)) {
      select.append(new Option(`${select.options.length + 1}`, number));
    }
    this.find("#sentence-label").hidden = select.options.length < 2;
  }

  chooseSentence(number) {
    this.following = false;
    this.openSentence(this.translation.sentences[number]);
    this.appendTokens();
    this.choose(Math.max(this.sentence.tokens.findIndex(({ piece }) => !isCaseMark(piece)), 0));
    this.hypotheses.showLive(this.sentence, this.newest);
    this.hypotheses.showFinished(this.sentence);
  }

  openSentence(sentence) {
    if (sentence === this.sentence && sentence.spans === this.spans) return;
    this.sentence = sentence;
    this.spans = sentence.spans; // a beam has steps before its first token tells them
    this.chosen = -1;
    this.find("#sentence").value = sentence.number;
    this.find("#tokens").replaceChildren();
    this.find("#cross").hidden = sentence.spans.length === 0; // there is none by way of another language
    this.table = emptyTable(this.find("#heatmap"), t("Cross-attention of each token over the source, in percent"));
    this.table.head.append(...this.sourceParts([]).map(({ label, count }) => columnHeader([label], count)));
    this.triangle.open(sentence);
  }

  sourceName(span, at) {
    if (span) return this.translation.text.slice(...span);
    return at === this.sentence.spans.length - 1 ? t("end") : t("tag");
  }

  sourceLabel(span, at) {
    const name = this.sourceName(span, at);
    return span ? name : element("span", { class: "special" }, [name]);
  }

  appendTokens() {
    const strip = this.find("#tokens");
    const { body } = this.table;
    const columns = this.sentence.spans.map((span, at) => this.sourceName(span, at));
    for (const token of this.sentence.tokens.slice(strip.children.length)) {
      const index = strip.children.length;
      const select = () => this.chooseByHand(index);
      const option = element("button", { type: "button", role: "option", tabindex: "-1" }, tokenLabel(token.piece));
      option.addEventListener("click", select);
      option.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && select());
      strip.append(option);
      const cells = (token.attention ?? []).map((weight, at) => heatCell(weight, columns[at]));
      const row = element("tr", {}, [rowHeader(tokenLabel(token.piece)), ...cells]);
      row.addEventListener("click", select);
      body.append(row);
    }
    this.find("#case-marks").hidden = !this.sentence.tokens.some(({ piece }) => isCaseMark(piece));
    this.triangle.grow();
  }

  chooseByHand(index) {
    this.following = false;
    this.choose(index);
  }

  /** Show what is known of one token. */
  choose(index) {
    if (index === this.chosen || index >= this.sentence.tokens.length) return;
    this.mark(index);
    const token = this.sentence.tokens[index];
    for (const name of this.root.querySelectorAll(".chosen")) name.replaceChildren(...tokenLabel(token.piece));
    this.showAttention(token);
    this.showCandidates(token);
    this.triangle.choose(index);
    this.hypotheses.showLive(this.sentence, this.newest);
    this.onSelect(this.sentence, token);
  }

  mark(index) {
    const options = this.find("#tokens").children;
    for (const nodes of [options, this.table.body.children]) {
      nodes[this.chosen]?.classList.remove("selected");
      nodes[index].classList.add("selected");
    }
    for (const [at, is] of [[this.chosen, false], [index, true]]) {
      options[at]?.setAttribute("aria-selected", is);
      options[at]?.setAttribute("tabindex", is ? "0" : "-1");
    }
    this.chosen = index;
  }

  showAttention({ attention = [] }) {
    const parts = [];
    let end = this.sentence.spans.find(Boolean)?.[0] ?? 0;
    for (const { span, weight, label } of this.sourceParts(attention)) {
      parts.push(span ? this.translation.text.slice(end, span[0]) : " ");
      parts.push(weighted("span", weight, percent(weight), [label]));
      end = span?.[1] ?? end;
    }
    this.find("#looked").replaceChildren(...parts);
  }

  /** The source's tokens with their weights; those of the same characters, a mark of case or bytes, are one part. */
  sourceParts(attention) {
    const parts = [];
    this.sentence.spans.forEach((span, at) => {
      const weight = attention[at] ?? 0;
      const before = parts.at(-1);
      if (span && before?.span?.[0] === span[0]) {
        before.weight += weight;
        before.count += 1;
      } else parts.push({ span, weight, count: 1, label: this.sourceLabel(span, at) });
    });
    return parts;
  }

  showCandidates({ piece, logprob, candidates, rank }) {
    const rows = candidates.map((each, at) => ({ ...each, chosen: at === rank }));
    if (rank < 0) rows.push({ text: piece, logprob, chosen: true });
    this.find("#candidates").replaceChildren(
      ...rows.map((each) => bar(tokenLabel(each.text), Math.exp(each.logprob), { chosen: each.chosen })),
    );
  }

  moveByKey(event) {
    const last = this.sentence.tokens.length - 1;
    const [back, forth] = document.dir === "rtl" ? ["ArrowRight", "ArrowLeft"] : ["ArrowLeft", "ArrowRight"];
    const to = {
      [back]: Math.max(this.chosen - 1, 0),
      [forth]: Math.min(this.chosen + 1, last),
      Home: 0,
      End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.chooseByHand(to);
    this.find("#tokens").children[to].focus();
  }
}
