// What the browser keeps for this page; where it keeps nothing, or no more, the page remembers it until it is closed.

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

  /** Return a list of objects; anything else is an empty one. */
  list(name) {
    const found = this.get(name, []);
    return Array.isArray(found) ? found.filter((each) => each && typeof each === "object") : [];
  }
}

export const browser = new Store(() => localStorage);
export const tab = new Store(() => sessionStorage);
