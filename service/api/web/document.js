// A document that is dropped on the page or chosen: sent, followed while it is translated, and downloaded.

import { serverSentEvents } from "./sse.js";

const $ = (id) => document.getElementById(id);

export class DocumentView {
  /** `settings` are those of the server; `chosen` returns the languages and the key of the page. */
  constructor(settings, chosen) {
    this.chosen = chosen;
    this.job = null;
    if (!settings.filesTranslation) return;
    $("document").hidden = false;
    $("file").accept = settings.supportedFilesFormat.join(",");
    $("file").addEventListener("change", () => this.send($("file").files[0]));
    $("document-cancel").addEventListener("click", () => this.cancel());
    $("document-download").addEventListener("click", () => this.download());
    addEventListener("dragover", (event) => this.drag(event));
    addEventListener("drop", (event) => this.drop(event));
  }

  drag(event) {
    if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
  }

  drop(event) {
    const [file] = event.dataTransfer?.files ?? [];
    if (!file) return;
    event.preventDefault();
    this.send(file);
  }

  async send(file) {
    if (!file) return;
    await this.cancel();
    $("document-error").textContent = "";
    const { source, target } = this.chosen();
    const body = new FormData();
    for (const [name, value] of Object.entries({ source, target, file })) body.append(name, value);
    this.show({ state: "queued", name: file.name, characters: 0, characters_done: 0 });
    try {
      this.job = await (await this.request("documents", { method: "POST", body })).json();
      await this.follow(this.job.id);
    } catch (error) {
      this.fail(error.message);
    }
    $("file").value = "";
  }

  async follow(id) {
    const response = await this.request(`documents/${id}`, { headers: { Accept: "text/event-stream" } });
    for await (const { data } of serverSentEvents(response)) {
      if (this.job?.id !== id) return;
      if (data.state === "error") return this.fail(data.error);
      this.show(data);
    }
    if (this.job?.id === id && $("document-download").hidden) this.fail("The connection to the server was lost.");
  }

  /** Fetch with the key of the page; throws what the server says. */
  async request(path, { headers = {}, ...options } = {}) {
    const { key } = this.chosen();
    const response = await fetch(path, { ...options, headers: key ? { ...headers, Authorization: `Bearer ${key}` } : headers });
    if (response.ok) return response;
    const { error } = await response.json().catch(() => ({}));
    throw new Error(error?.replace(/^(file|document_id): /, "") ?? "The server returned no reason.");
  }

  show({ state, name, characters, characters_done: done, seconds_left: left, warnings = [] }) {
    $("document-state").hidden = false;
    const share = characters ? done / characters : 0;
    const rest = left === undefined ? "" : `, about ${left} s left`;
    $("document-progress").value = state === "done" ? 1 : share;
    $("document-name").textContent = name;
    $("document-words").textContent =
      { queued: "waiting", done: ["translated", ...warnings].join("; ") }[state] ?? `${Math.round(100 * share)} %${rest}`;
    $("document-cancel").hidden = state === "done";
    $("document-download").hidden = state !== "done";
  }

  fail(problem) {
    this.job = null;
    $("document-state").hidden = true;
    $("document-error").textContent = problem;
  }

  async cancel() {
    const job = this.job;
    this.job = null;
    $("document-state").hidden = true;
    // It may be gone already.
    if (job) await this.request(`documents/${job.id}`, { method: "DELETE" }).catch(() => null);
  }

  async download() {
    try {
      const response = await this.request(`documents/${this.job.id}/result`);
      const [, name] = /filename="([^"]*)"/.exec(response.headers.get("Content-Disposition")) ?? [, this.job.name];
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await response.blob());
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
      this.job = null;
      $("document-state").hidden = true;
    } catch (error) {
      this.fail(error.message);
    }
  }
}
