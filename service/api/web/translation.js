// The state of one translation, built from its events. Knows nothing of the page.

import { ServerError } from "./server.js";

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
