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

  /** Return a list of objects whose `fields` are strings; what is none of these is left out. */
  list(name, fields) {
    const found = this.get(name, []);
    const whole = (each) => fields.every((field) => typeof each?.[field] === "string");
    return Array.isArray(found) ? found.filter(whole) : [];
  }
}

export const browser = new Store(() => localStorage);
export const tab = new Store(() => sessionStorage);
