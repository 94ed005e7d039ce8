// The requests of the page, with the key that its reader gave.

import { checked } from "./server.js";
import { tab } from "./storage.js";

const KEPT_KEY = "api-key"; // in the storage of the tab

export class Api {
  constructor({ field, place, onChange }) {
    Object.assign(this, { field, place });
    field.addEventListener("input", () => {
      tab.set(KEPT_KEY, field.value);
      onChange();
    });
  }

  /** Ask for a key, on a server that has some. */
  askForKey() {
    this.place.hidden = false;
    this.field.value ||= tab.get(KEPT_KEY, "");
  }

  get key() {
    return this.field.value.trim();
  }

  /** Send JSON, and return the response whatever it is. */
  send(path, body, { signal, id } = {}) {
    const headers = { "Content-Type": "application/json", ...(id && { "Last-Event-ID": id }) };
    const all = this.key ? { ...body, api_key: this.key } : body;
    return fetch(path, { method: "POST", headers, body: JSON.stringify(all), signal });
  }

  /** Send JSON; throws what the server refuses. */
  async ask(path, body) {
    return checked(await this.send(path, body));
  }
}
