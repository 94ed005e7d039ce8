// Live translation: the text of the page is sent as it grows. What is committed of its translation stays; a draft of
// what may follow stands behind it in grey.

import { element } from "./elements.js";
import { clearErrors, showError } from "./messages.js";
import { pause, ServerError } from "./server.js";
import { common } from "./changing.js";

const DRAW_MILLISECONDS = 30; // a commit and the draft behind it are drawn together
const PAUSE_MILLISECONDS = 1000; // after which a closing mark ends its sentence, whatever may follow
const SENTENCE_END = /[.!?…。！？।؟]["'”’»)\]」』]*\s*$/u;
const PASSING = { rate_limited: "busy", queue_full: "busy", not_ready: "away" }; // errors with reasons to try again
const SILENT = "deadline_exceeded"; // the session got no text for minutes

export class Live {
  /**
   * `fields()` returns the first message of a session: languages, terms, key. `onCommit` hears of committed text,
   * `onKept` of a change that came too late for it, `onPause` of a pause in the text, and `onFinish` of the end of all
   * its sentences.
   */
  constructor({ target, state }, { fields, ...listeners }) {
    Object.assign(this, { target, state, fields, ...listeners });
    this.text = []; // in characters as the server counts them: code points
    this.socket = null;
    this.on = false;
  }

  /** Show an empty translation; `update` begins another one. */
  begin() {
    this.end();
    this.text = [];
    // What another session needs to go on: its unfinished sentence, and the part of its translation that is committed.
    this.place = { source_start: 0, segment: 0, index: 0, committed: "" };
    this.failures = 0;
    this.fresh = this.draft = "";
    // Screen readers read additions to a log; a draft would be read again and again.
    this.committed = element("span", { class: "committed", role: "log" });
    this.uncertain = element("span", { class: "draft", "aria-hidden": "true" });
    this.target.clear();
    this.target.output.replaceChildren(this.committed, this.uncertain);
  }

  /** Close the session; what has come stays. */
  end() {
    clearTimeout(this.pausing);
    clearTimeout(this.drawing);
    this.drawing = null;
    this.target.output.style.minHeight = "";
    this.socket?.close(1000);
    this.socket = null;
    this.state.goOn();
  }

  /** Translate the text as it is now. Quite another one, or other languages or terms, begin anew. */
  update(text) {
    const next = Array.from(text);
    const choices = JSON.stringify(this.fields());
    const [same, end] = common(this.text, next);
    if (this.text.length > 0 && (choices !== this.choices || 2 * (same + end) < this.text.length)) this.begin();
    else if (same === next.length && same === this.text.length) return;
    const { place } = this;
    if (same < place.source_start) place.source_start = Math.max(same, place.source_start + next.length - this.text.length);
    Object.assign(this, { text: next, choices });
    this.target.following = true;
    this.awaitPause();
    if (this.socket === null && text.trim() !== "") this.connect();
    else this.send({ replace_from: same, text: next.slice(same).join("") });
  }

  awaitPause() {
    clearTimeout(this.pausing);
    this.pausing = setTimeout(() => {
      this.onPause();
      if (SENTENCE_END.test(this.text.join(""))) this.send({ final: true });
    }, PAUSE_MILLISECONDS);
  }

  /** Send a message; without a connection, the next one begins with the whole unfinished text. */
  send(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  connect() {
    const socket = (this.socket = new WebSocket(new URL("translate/live", location.href.replace(/^http/, "ws"))));
    this.waits = "away"; // for this reason, if the connection is lost
    socket.addEventListener("open", () => {
      clearErrors();
      this.send({ ...this.fields(), ...this.place, append: this.text.slice(this.place.source_start).join("") });
      this.awaitPause();
    });
    socket.addEventListener("message", ({ data }) => this.socket === socket && this.take(JSON.parse(data)));
    socket.addEventListener("close", () => this.socket === socket && this.lost());
  }

  /** Connect again after a pause; after a refusal, with the next change of the text. */
  async lost() {
    const { socket } = this;
    if (!this.waits) return (this.socket = null);
    this.state.wait(this.waits);
    await pause(this.failures++);
    if (this.socket === socket) this.connect();
  }

  take({ event, ...data }) {
    const { place } = this;
    if (event === "error") return this.fail(new ServerError(data));
    if (event === "start") this.state.goOn();
    else this.failures = 0;
    if (event === "kept") this.onKept();
    // Any event ends the draft.
    this.draft = event === "draft" ? data.text : "";
    this.drawing ??= setTimeout(() => this.draw(), DRAW_MILLISECONDS);
    if (event === "commit") {
      place.committed += data.text;
      this.fresh += data.text;
    }
    if (event !== "segment") return;
    const index = place.index + Array.from(data.text).length;
    this.place = { source_start: data.source_end, segment: data.segment + 1, index, committed: "" };
    this.draw();
    if (this.text.slice(data.source_end).join("").trim() === "") this.onFinish();
  }

  fail(error) {
    if (error.field === "replace_from") {
      // The change is in a sentence that the server has forgotten.
      const text = this.text.join("");
      this.begin();
      return this.update(text);
    }
    this.waits = PASSING[error.code];
    if (!this.waits && error.code !== SILENT) showError(error);
    this.socket.close(1000);
  }

  draw() {
    const { output, following } = this.target;
    clearTimeout(this.drawing);
    this.drawing = null;
    if (this.fresh) this.committed.append(this.fresh);
    this.uncertain.textContent = this.draft;
    if (this.fresh) this.onCommit();
    this.fresh = "";
    output.style.minHeight = `${output.offsetHeight}px`; // a draft that is shorter than the last one moves nothing
    if (following) output.scrollTop = output.scrollHeight;
  }
}
