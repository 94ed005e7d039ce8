// A document that is dropped on the page or chosen: sent, followed while it is translated, and downloaded.

import { answered, checked, events } from "./server.js";
import { number, t } from "./texts.js";

const $ = (id) => document.getElementById(id);

export class DocumentView {
  /**
   * `chosen` returns the languages and the key of the page, `targetFor(language)` the target for a document in a
   * language; `wordsOf` says an error.
   */
  constructor({ chosen, targetFor, wordsOf }) {
    Object.assign(this, { chosen, targetFor, wordsOf });
    this.job = null;
    this.sending = null;
    this.offered = false;
    $("file").addEventListener("change", () => this.send($("file").files[0]));
    $("document-cancel").addEventListener("click", () => this.cancel());
    $("document-download").addEventListener("click", () => this.download());
    for (const sign of ["dragover", "dragleave", "drop"]) addEventListener(sign, (event) => this.drag(event));
  }

  /** Show what a server of these settings takes. */
  offer({ filesTranslation, supportedFilesFormat }) {
    this.offered = filesTranslation;
    $("document").hidden = !filesTranslation;
    $("file").accept = supportedFilesFormat.join(",");
  }

  drag(event) {
    if (!this.offered || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    $("document").classList.toggle("awaited", event.type === "dragover");
    const [file] = event.dataTransfer.files;
    if (event.type === "drop" && file) this.send(file);
  }

  async send(file) {
    if (!file) return;
    await this.cancel();
    const { signal } = (this.sending = new AbortController());
    $("document-error").textContent = "";
    const { source, target } = this.chosen();
    try {
      await this.upload({ source, target, file }, signal);
      const better = this.targetFor(this.job.source);
      if (better !== target) {
        await this.delete();
        await this.upload({ source, target: better, file }, signal);
      }
      await this.follow(this.job.id, signal);
    } catch (error) {
      if (!signal.aborted) this.fail(error);
    }
    $("file").value = "";
  }

  async upload(fields, signal) {
    const body = new FormData();
    for (const [name, value] of Object.entries(fields)) body.append(name, value);
    this.show({ state: "queued", name: fields.file.name, characters: 0, characters_done: 0 });
    this.job = await (await this.request("documents", { method: "POST", body, signal })).json();
  }

  /** Show the progress until the end, over as many connections as it takes. */
  async follow(id, signal) {
    const options = { headers: { Accept: "text/event-stream" }, signal };
    const send = () => this.fetch(`documents/${id}`, options);
    for await (const { data } of events(send, { onWait: showWait, signal })) {
      if (this.job?.id !== id) return;
      if (data.state === "error") return this.fail(new Error(data.error));
      this.show(data);
      if (data.state === "done") return;
    }
  }

  /** Fetch as soon as the server answers; throws what it refuses. */
  async request(path, options = {}) {
    return checked(await answered(() => this.fetch(path, options), { onWait: showWait, signal: options.signal }));
  }

  /** Fetch with the key of the page. */
  fetch(path, { headers = {}, ...options }) {
    const { key } = this.chosen();
    return fetch(path, { ...options, headers: key ? { ...headers, Authorization: `Bearer ${key}` } : headers });
  }

  show({ state, name, characters, characters_done: done, seconds_left: seconds, report }) {
    $("document-state").hidden = false;
    const share = state === "done" ? 1 : characters ? done / characters : 0;
    const percent = number(Math.floor(100 * share) / 100, { style: "percent" });
    $("document-progress").value = share;
    $("document-name").textContent = name;
    $("document-words").textContent =
      { queued: t("waiting"), done: report && inWords(report) }[state] ??
      (seconds === undefined ? percent : t("{percent}, about {seconds} s left", { percent, seconds: number(seconds) }));
    $("document-cancel").hidden = state === "done";
    $("document-download").hidden = state !== "done";
  }

  fail(error) {
    this.job = null;
    $("document-state").hidden = true;
    $("document-error").textContent = this.wordsOf(error);
  }

  /** Give the document up, also while it is sent. */
  async cancel() {
    $("document-state").hidden = true;
    // The stream of a job ends with it; if the page aborted it, Chromium would send the deletion twice.
    if (!this.job) this.sending?.abort();
    await this.delete();
  }

  async delete() {
    const job = this.job;
    this.job = null;
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
      this.fail(error);
    }
  }
}

function showWait() {
  $("document-words").textContent = t("The server does not answer. Trying again …");
}

/** The report of a document: counts in the page's language, and the server's warnings as they are. */
function inWords({ translated, unchanged, left, without_inner_tags: plain, warnings }) {
  const sum = (counts) => Object.values(counts).reduce((total, count) => total + count, 0);
  const told = (count, words) => (count > 0 ? [words(number(count))] : []);
  return [
    t("texts translated: {count}", { count: number(sum(translated)) }),
    ...told(unchanged, (count) => t("equal in both languages: {count}", { count })),
    ...told(sum(left), (count) => t("not translated: {count}", { count })),
    ...told(plain, (count) => t("formatting to compare: {count}", { count })),
    ...warnings,
  ].join("; ");
}
