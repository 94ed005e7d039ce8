// The hypotheses of a beam: those that live after a step, and those that are finished.

import { decimal, element, percent, View } from "./elements.js";
import { number, t } from "./texts.js";

export class Hypotheses extends View {
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
export function bar(label, share, { chosen, value = percent(share), block = false }) {
  const item = element("li", { class: `bar${chosen ? " chosen-one" : ""}${block ? " block" : ""}` }, [
    element("span", { class: "label" }, label),
    element("span", { class: "track" }, [element("span", { class: "fill" })]),
    element("span", { class: "value" }, [value]),
  ]);
  item.querySelector(".fill").style.setProperty("--share", share);
  return item;
}
