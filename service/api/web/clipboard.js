// Copying a text, with a sign that it is done.

import { setFace, symbolOf } from "./elements.js";
import { t } from "./texts.js";

/** Copy a text; `button` says so for a moment. */
export async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Browsers deny the clipboard to pages that were loaded by plain HTTP from another machine.
    copyBySelection(text);
  }
  const { dataset } = button;
  dataset.label ??= button.title;
  dataset.symbol ??= symbolOf(button);
  setFace(button, "done", t("Copied"));
  setTimeout(() => setFace(button, dataset.symbol, dataset.label), 2000);
}

function copyBySelection(text) {
  const focused = document.activeElement;
  const area = document.body.appendChild(document.createElement("textarea"));
  area.value = text;
  area.select();
  document.execCommand("copy");
  area.remove();
  focused?.focus();
}
