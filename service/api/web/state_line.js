// The line below the translation: what happens at the moment, and for those who look inside the model its speed.

import { number, t } from "./texts.js";

const WAITING = {
  away: () => t("The server does not answer. Trying again …"),
  starting: () => t("The server is starting. The page comes alive by itself."),
  busy: () => t("The server is busy. Trying again …"),
};

export class StateLine {
  constructor(node) {
    this.node = node;
    this.waiting = false;
  }

  say(words) {
    this.waiting = false;
    this.node.classList.remove("waiting");
    if (this.node.textContent !== words) this.node.textContent = words;
  }

  wait(reason) {
    this.say(WAITING[reason]());
    this.waiting = true;
    this.node.classList.add("waiting");
  }

  /** The server answers again. */
  goOn() {
    if (this.waiting) this.say("");
  }

  /** Show the progress of a model that the server fetches for this translation. */
  load({ model, percent }) {
    const share = percent === null ? "" : ` ${number(percent / 100, { style: "percent" })}`;
    this.say(t("Fetching a model: {model}", { model }) + share);
  }

  /** Say how it went; the speed is for those who asked for numbers. */
  finish({ usage, timings }, withNumbers) {
    if (!usage.generated_tokens) return this.say(t("Nothing to translate: the text was copied."));
    if (!withNumbers) return this.say("");
    const milliseconds = number(Math.round(1000 * timings.time_to_first_token_seconds));
    const rate = number(Math.round(usage.generated_tokens / timings.total_seconds));
    const tokens = number(usage.generated_tokens);
    this.say(t("First token {milliseconds} ms · {tokens} tokens · {rate} tokens/s", { milliseconds, tokens, rate }));
  }
}
