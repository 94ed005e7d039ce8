// What the page says: errors in the reader's words, at the field that they are about, and a line below the translation:
// what happens at the moment.

import { number, t } from "./texts.js";

const PLACES = {
  q: "text",
  source: "language",
  target: "language",
  beam_size: "beam",
  hypotheses: "beam",
  glossary: "terms",
  api_key: "key",
};
const CODES = { too_long: "text", invalid_key: "key", key_required: "key" };
const WORDS = {
  key_required: () => t("This server requires an API key."),
  invalid_key: () => t("This is not a valid API key."),
  too_long: () => t("This text is too long."),
  quota_exceeded: () => t("The quota of this API key is used up."),
  deadline_exceeded: () => t("The translation took too long and was given up."),
  engine_failed: () => t("Something went wrong on the server. Please try again."),
  internal_error: () => t("Something went wrong on the server. Please try again."),
  insufficient_storage: () => t("The server has no room for more."),
  unknown_document: () => t("The server does not have this document any more."),
};

/** Say an error; where there are no words of ours, in the server's. */
export function wordsOf(error) {
  return WORDS[error.code]?.() ?? (error.problem || error.message || WORDS.internal_error());
}

export function showError(error) {
  const place = CODES[error.code] ?? PLACES[error.field] ?? "output";
  const node = document.getElementById(`${place}-error`);
  node.textContent = wordsOf(error);
  if (place === "text") document.getElementById("text").setAttribute("aria-invalid", "true");
  const closed = node.closest("details:not([open])");
  if (closed) closed.open = true;
}

export function clearErrors() {
  for (const node of document.querySelectorAll(".error[role=alert]")) node.textContent = "";
  document.getElementById("text").removeAttribute("aria-invalid");
}

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
