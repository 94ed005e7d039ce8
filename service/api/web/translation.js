// One translation at a time: its state, built from its events, and its way from the text of the page to the server and
// back.

import { clearErrors } from "./messages.js";
import { events, ServerError } from "./server.js";

const SAME = 1e-3; // of log-probabilities that were computed twice

export class Translation {
  /** `text` is what was sent. */
  constructor(text) {
    this.text = text;
    this.source = null;
    this.isDetected = false; // the server could tell the language of the text
    this.pivot = null;
    this.sentences = [];
    this.tokens = 0;
    this.done = null;
    this.offsets = utf16Offsets(text);
  }

  /** Takes {event, data}; throws what an `error` event says, with its code. */
  apply({ event, data }) {
    if (event === "start") this.start(data);
    if (event === "token") this.add(data);
    if (event === "hypotheses") this.sentence(data).steps.push(data.hypotheses);
    if (event === "segment") Object.assign(this.sentences[data.segment], data, { place: this.range(...data.source) });
    if (event === "done") this.done = data;
    if (event === "error") throw new ServerError(data);
  }

  start({ source, pivot = null, detectedLanguage }) {
    this.source = source;
    this.isDetected = detectedLanguage?.confidence > 0;
    this.pivot = pivot;
  }

  /** The sentence of a token or of a beam's step; its first token brings what its source tokens stand for. */
  sentence({ segment: number, source_tokens: spans = [] }) {
    const sentence = (this.sentences[number] ??= { number, spans: [], tokens: [], steps: [] });
    if (spans.length > 0) sentence.spans = spans.map((span) => span && this.range(...span));
    return sentence;
  }

  add(token) {
    const { alignment, candidates = [], logprob } = token;
    const from = alignment ? this.range(alignment.start, alignment.end) : null;
    const rank = candidates.findIndex((each) => Math.abs(each.logprob - logprob) < SAME);
    // The text of an event is the text that its token completes: perhaps only a space, or no whole character yet.
    const piece = rank < 0 ? token.text : candidates[rank].text;
    this.sentence(token).tokens.push({ ...token, candidates, rank, piece, from });
    this.tokens += 1;
  }

  /** The text that a sentence translates; empty before its end. */
  sourceOf(number) {
    return this.text.slice(...(this.sentences[number].place ?? [0, 0]));
  }

  /** The server counts code points, strings count UTF-16 units. */
  range(start, end) {
    return [this.offsets(start), this.offsets(end)];
  }
}

function utf16Offsets(text) {
  const characters = Array.from(text);
  if (characters.length === text.length) return (offset) => offset;
  const ends = [0];
  for (const character of characters) ends.push(ends.at(-1) + character.length);
  return (offset) => ends[offset];
}

const CANDIDATES = 5;
const MOST_ALTERNATIVES = 3;

export class Translator {
  /**
   * `views` are the page's `source`, `target`, `inside`, `state` and `beam`. `fields` returns the chosen languages and
   * terms of a text. `onBegin`, `onStart(translation)`, `onFinish(translation)` and `onFail(error, translation)` hear
   * of a translation, and `onReturn` that the server was away meanwhile.
   */
  constructor(views, { api, fields, ...listeners }) {
    Object.assign(this, views, { api, fields, ...listeners });
    this.running = null;
    this.loaded = null; // resolved once there are languages
    this.translation = null;
  }

  /** True once the whole text that stands in the page is translated. */
  get complete() {
    return this.running === null && this.translation?.done && this.translation.text === this.source.text;
  }

  async translate() {
    this.stop();
    if (this.source.empty) return this.reset();
    const mine = (this.running = new AbortController());
    const translation = (this.translation = new Translation(this.source.text));
    this.target.expect();
    this.show(true);
    try {
      await Promise.race([this.loaded, aborted(mine.signal)]);
      this.onBegin();
      await this.read(translation, mine.signal);
      if (this.running === mine) this.end(() => this.onFinish(translation));
    } catch (error) {
      if (this.running === mine) this.end(() => this.onFail(error, translation));
    }
  }

  end(report) {
    this.running = null;
    this.show(false);
    this.target.draw();
    report();
    this.inside.finish();
    if (this.waited) this.onReturn();
    this.waited = false;
  }

  async read(translation, signal) {
    const body = this.request(translation.text);
    const send = (id) => this.send(body, { signal, id });
    const onWait = (reason) => {
      this.waited = true;
      this.state.wait(reason);
    };
    for await (const event of events(send, { signal, onWait })) {
      signal.throwIfAborted(); // by what `onStart` did, before the events that came with it
      this.state.goOn();
      if (event.event === "start") this.inside.show(translation);
      translation.apply(event);
      if (event.event === "start") this.onStart(translation);
      if (event.event === "loading") this.state.load(event.data);
      if (event.event === "token") {
        const { segment } = event.data;
        this.target.append(segment, translation.sentences[segment].tokens.at(-1));
      }
      if (["token", "hypotheses"].includes(event.event)) this.target.drawSoon();
    }
  }

  /** Send the request; without attention where a translation by way of another language has none. */
  async send(body, options) {
    const response = await this.api.send("translate", body, options);
    if (response.status !== 400 || !body.attention) return response;
    const { error = "" } = await response.clone().json();
    if (!/^(attention|alignment):/.test(error)) return response;
    delete body.attention;
    return this.api.send("translate", body, options);
  }

  request(text) {
    const body = { q: text, ...this.fields(text), stream: true };
    // A sentence that a memory has shows nothing of the model.
    if (!this.inside.root.open) return { ...body, matches: true };
    Object.assign(body, { attention: true, self_attention: true, top_candidates: CANDIDATES, scores: true });
    const width = Number(this.beam.value);
    if (width <= 1) return body;
    return { ...body, beam_size: width, hypotheses: true, alternatives: Math.min(width - 1, MOST_ALTERNATIVES) };
  }

  /** Show that the translation is of an earlier text, until `translate`. */
  expect() {
    this.target.expect();
    this.target.output.ariaBusy = "true";
  }

  /** Remove the translation. */
  reset() {
    this.stop();
    clearErrors();
    this.translation = null;
    this.target.clear();
    this.inside.show(null);
    this.state.say("");
    this.onBegin();
  }

  /** Give up; what has come stays. */
  stop() {
    this.running?.abort();
    this.running = null;
    this.show(false);
    clearErrors();
  }

  show(working) {
    this.target.output.classList.toggle("working", working);
    this.target.output.ariaBusy = String(working);
  }
}

function aborted(signal) {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
}
