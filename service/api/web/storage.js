// What is kept for the next visit: in the browser, and in the page's address. Where the browser keeps nothing, or no
// more, the page remembers it until it is closed.

class Store {
  /** `area` returns the storage; a browser may forbid to name it. */
  constructor(area) {
    this.area = area;
    this.memory = new Map();
  }

  get(name, fallback) {
    if (this.memory.has(name)) return this.memory.get(name);
    try {
      return JSON.parse(this.area().getItem(name)) ?? fallback;
    } catch {
      return fallback; // forbidden or damaged
    }
  }

  /** Keep a value; null forgets it. */
  set(name, value) {
    try {
      if (value === null) this.area().removeItem(name);
      else this.area().setItem(name, JSON.stringify(value));
      this.memory.delete(name);
    } catch {
      this.memory.set(name, value);
    }
  }

  /** Return a list of objects whose `fields` are strings; what is none of these is left out. */
  list(name, fields) {
    const found = this.get(name, []);
    const whole = (each) => fields.every((field) => typeof each?.[field] === "string");
    return Array.isArray(found) ? found.filter(whole) : [];
  }
}

export const browser = new Store(() => localStorage);
export const tab = new Store(() => sessionStorage);

export const LONGEST_TEXT = 2000; // a longer one is kept in the tab, not in its address

/** Return what the address asks for; each part may be undefined. */
export function readAddress() {
  const { q, source, target } = Object.fromEntries(new URLSearchParams(location.search));
  const { state } = history;
  return { text: q ?? state?.text, source, target, isChosen: Boolean(target) && !state?.isGuessed };
}

/** Write what is translated into what; `isChosen` is false if the page has chosen the languages. */
export function writeAddress({ text, source, target, isChosen }) {
  const wanted = new URLSearchParams({ source, target });
  if (text !== "" && text.length <= LONGEST_TEXT) wanted.set("q", text);
  history.replaceState({ text, isGuessed: !isChosen }, "", `?${wanted}`);
}
