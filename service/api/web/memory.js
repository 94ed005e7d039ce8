// The units of the server's translation memories that are like the text's sentences.

import { element, View } from "./elements.js";

export class MemoryView extends View {
  /** Show what the sentences of a translation are like, of `languages`; of none, nothing. */
  show(translation, languages) {
    const found = translation?.sentences.flatMap(({ matches = [] }) => matches) ?? [];
    found.sort((one, other) => one.score - other.score);
    const units = new Map(found.map((unit) => [`${unit.source}\n${unit.target}`, unit]));
    this.root.hidden = units.size === 0;
    this.find("ol").replaceChildren(...[...units.values()].reverse().map((unit) => row(unit, languages)));
  }
}

function row({ source, target, score }, languages) {
  const unit = element("div", { class: "entry" }, [
    element("span", { class: "quiet" }, [`${Math.floor(score)} %`]),
    element("span", { class: "line", dir: "auto", lang: languages.source }, [source]),
    element("span", { class: "line", dir: "auto", lang: languages.target }, [target]),
  ]);
  return element("li", {}, [unit]);
}
