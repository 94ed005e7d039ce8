// Small pieces of the page.

/** An element with attributes and children; text is always text. */
export function element(name, attributes = {}, children = []) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== "") node.setAttribute(key, value);
  node.append(...children);
  return node;
}

export function percent(share) {
  return share < 0.001 ? "<0.1 %" : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

export function decimal(number) {
  return number.toFixed(3).replace("-", "−");
}

/** A token as people can see it: its leading space as a dot, and what is no text by name. */
export function tokenLabel(text) {
  const word = text.trimStart();
  if (word === "") return [element("span", { class: "special" }, [text === "" ? "end" : "space"])];
  return word === text ? [text] : [element("span", { class: "dot" }, ["·"]), word];
}
