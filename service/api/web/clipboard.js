// Buttons that copy a text.

import { element } from "./elements.js";

/** Build a button that copies a text, which the element of the class `text` beside it shows. */
export function copyButton(copied, label) {
  const button = element("button", { class: "link", type: "button", "aria-label": label }, ["Copy"]);
  button.addEventListener("click", () => copy(button, copied, button.parentElement.querySelector(".text")));
  return button;
}

/** Copy a text, which `shown` shows. */
export async function copy(button, copied, shown) {
  try {
    await navigator.clipboard.writeText(copied);
  } catch {
    // Browsers deny the clipboard to pages that were loaded by plain HTTP from another machine.
    getSelection().selectAllChildren(shown);
    document.execCommand("copy");
  }
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 2000);
}
