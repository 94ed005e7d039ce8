// A hint that a text is in another language than was chosen, with one click to choose the right one.

import { AUTOMATIC } from "./direction.js";
import { directionName, languageName, t } from "./texts.js";

const SAMPLE_CHARACTERS = 500;
const SURE_PERCENT = 70;
const RESEMBLES_NONE_PERCENT = 5;
// A single word may be in any language, unless its script writes no spaces.
const SEVERAL_WORDS = /\p{L}\P{L}+\p{L}|[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]{4}/u;

export class Hints {
  /** `detect(text)` asks the server; `onTurn(languages)` hears that somebody takes the other direction. */
  constructor(root, { languages, detect, onTurn }) {
    Object.assign(this, { root, languages, detect, onTurn });
    this.text = null;
    this.direction = null;
    root.querySelector("button").addEventListener("click", () => this.onTurn(this.direction));
  }

  clear() {
    this.text = null;
    this.show("", null);
  }

  /** Look at a text that was translated, from `detected` if its language was to be detected. */
  async look(text, detected) {
    const { source, target } = this.languages;
    this.text = text;
    const found = source === AUTOMATIC ? detected : await this.other(text, source);
    if (this.text === text && found && (found === target || found !== source)) this.tell(found, source === AUTOMATIC);
  }

  /** Look at a text that was refused for its language. Returns whether there is something to say. */
  async explain(text) {
    this.text = text;
    const [first] = await this.detected(text);
    if (first && this.text === text) this.tell(this.languages.codeOf(first.language), false);
    return Boolean(first);
  }

  /** The language of a text that is surely not in `source`. */
  async other(text, source) {
    if (!SEVERAL_WORDS.test(text)) return null;
    const found = await this.detected(text);
    const own = found.find(({ language }) => this.languages.codeOf(language) === source);
    const sure = found[0]?.confidence >= SURE_PERCENT && (own?.confidence ?? 0) <= RESEMBLES_NONE_PERCENT;
    return sure ? this.languages.codeOf(found[0].language) : null;
  }

  async detected(text) {
    return this.detect(text.slice(0, SAMPLE_CHARACTERS)).catch(() => []);
  }

  tell(code, expected) {
    const { target } = this.languages;
    const language = languageName(code);
    if (code === target) {
      const partner = this.languages.partner(code);
      this.show(t("This text is already in {language}.", { language }), partner && { source: code, target: partner });
      return;
    }
    const possible = this.languages.translates(code, target) ? target : this.languages.partner(code);
    if (possible === target && expected) return;
    const words = possible
      ? t("This text seems to be in {language}.", { language })
      : t("This text seems to be in {language}, which is not translated here.", { language });
    this.show(words, possible && { source: code, target: possible });
  }

  show(words, direction) {
    this.direction = direction;
    this.root.hidden = words === "";
    this.root.querySelector("span").textContent = words;
    const button = this.root.querySelector("button");
    button.hidden = !direction;
    if (direction) button.textContent = directionName(direction.source, direction.target);
  }
}
