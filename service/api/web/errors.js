// What the server refuses, in the reader's words and at the field that it is about.

import { t } from "./texts.js";

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
