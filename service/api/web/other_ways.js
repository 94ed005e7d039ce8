// Other ways to say a word or a sentence of a translation. Knows the server's events, and nothing of the page.

import { isCaseMark } from "./elements.js";
import { serverSentEvents } from "./server.js";
import { Translation } from "./translation.js";

const CANDIDATES = 12;
const TRIED = 8;
const SHOWN = 4;
const LEAST_LOGPROB = -7; // of a candidate: below are words that mean something else
const ALTERNATIVES = 3;

export class OtherWays {
  /** `ask(fields)` sends a request for a sentence in the page's direction, and returns the response. */
  constructor(ask) {
    this.ask = ask;
    this.known = null;
  }

  /**
   * Return what is known of a word at characters `start` to `end` of the translation of a sentence: the `term` that it
   * translates, or "", and `options`: whole translations with another word in its place, the best first.
   */
  async ofWord(sentence, translation, { start, end }) {
    const { tokens } = await this.tokens(sentence, translation);
    const first = tokens.findIndex((token) => token.end > start);
    const inside = tokens.filter((token) => token.end > start && token.start < end);
    const prefixes = candidatesAt(tokens, first).slice(0, TRIED).map((word) => this.joined(tokens, first, word));
    const found = await Promise.all(prefixes.map((prefix) => this.continued(sentence, prefix)));
    const best = found.filter(({ text }) => text !== translation).sort((one, other) => other.score - one.score);
    return { term: termOf(sentence, inside), options: unique(best.map(({ text }) => text)).slice(0, SHOWN) };
  }

  /** Return other translations of a sentence, the best first. */
  async ofSentence(sentence, translation) {
    const { translatedText, alternatives = [] } = await this.json({ q: sentence, alternatives: ALTERNATIVES });
    return unique([translatedText, ...alternatives].map((each) => each.trim())).filter((each) => each !== translation);
  }

  /** Return the translation of a sentence that begins with `prefix`, and its score. */
  async continued(sentence, prefix) {
    const answer = await this.json({ q: sentence, target_prefix: prefix, scores: true });
    return { text: answer.translatedText.trim(), score: answer.scores };
  }

  /** The tokens of a translation with their candidates, each with its place in it. */
  async tokens(sentence, translation) {
    const key = JSON.stringify([sentence, translation]);
    if (this.known?.key !== key) this.known = { key, tokens: await this.read(sentence, translation) };
    return this.known;
  }

  async read(sentence, translation) {
    const fields = { q: sentence, target_prefix: translation, stream: true, top_candidates: CANDIDATES };
    const aligned = await this.ask({ ...fields, alignment: true }).catch((error) => {
      // By way of another language there is no alignment.
      if (error.field !== "alignment") throw error;
      return this.ask(fields);
    });
    const read = new Translation(sentence);
    for await (const event of serverSentEvents(aligned)) read.apply(event);
    let end = 0;
    return read.sentences.flatMap(({ tokens }) =>
      tokens.map((token) => {
        const before = end;
        end += token.text.length;
        return { ...token, start: before + token.text.length - token.text.trimStart().length, end };
      }),
    );
  }

  joined(tokens, first, word) {
    const before = tokens.slice(0, first).map(({ text }) => text).join("");
    return before === "" ? word.trimStart() : before + word;
  }

  async json(fields) {
    return (await this.ask(fields)).json();
  }
}

/** The words that the model held possible in place of a token, the most probable first. */
function candidatesAt(tokens, first) {
  if (first < 0) return [];
  const token = tokens[first];
  // A token that marks upper case stands before its word.
  const mark = tokens[first - 1]?.text === "" && isCaseMark(tokens[first - 1].piece) ? tokens[first - 1] : null;
  const cased = token.candidates.map((each) => ({ ...each, text: mark ? inCase(each.text, mark.piece) : each.text }));
  const all = [...cased, ...(mark?.candidates ?? [])].filter(
    ({ text, logprob }) => /[\p{L}\p{N}]/u.test(text) && logprob > LEAST_LOGPROB && text.trim() !== token.text.trim(),
  );
  return unique(all.sort((one, other) => other.logprob - one.logprob).map(({ text }) => text));
}

function inCase(text, mark) {
  if (mark === "⇪") return text.toUpperCase();
  return text.replace(/\p{L}/u, (letter) => letter.toUpperCase());
}

/** The word of the sentence that tokens come from. */
function termOf(sentence, tokens) {
  const [strongest] = tokens
    .filter(({ from }) => from)
    .sort((one, other) => other.alignment.weight - one.alignment.weight);
  if (!strongest) return "";
  const word = new Intl.Segmenter(undefined, { granularity: "word" }).segment(sentence).containing(strongest.from[0]);
  return word?.isWordLike ? word.segment : "";
}

function unique(texts) {
  return [...new Set(texts)].filter(Boolean);
}
