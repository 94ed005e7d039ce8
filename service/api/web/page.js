// Connects the parts of the page with each other and with the server.

import { Api } from "./api.js";
import { AUTOMATIC, Direction, preferred } from "./direction.js";
import { DocumentView } from "./document.js";
import { copy } from "./elements.js";
import { Hints } from "./hints.js";
import { InsideView } from "./inside.js";
import { HistoryView, MemoryView, TermsView } from "./lists.js";
import { Live } from "./live.js";
import { showError, StateLine, wordsOf } from "./messages.js";
import { OtherWays } from "./other_ways.js";
import { scrollTogether, SourcePane, TargetPane } from "./panes.js";
import { answered, checked } from "./server.js";
import { Dictation, SpeechButton } from "./speech.js";
import { browser, LONGEST_TEXT, readAddress, writeAddress } from "./storage.js";
import { localize, offerInterfaces, t } from "./texts.js";
import { Translator } from "./translation.js";
import { Correction, WordMenu } from "./changing.js";

const $ = (id) => document.getElementById(id);
const [text, output] = ["text", "output"].map($);
await localize();

const state = new StateLine($("state"));
const api = new Api({ field: $("key"), place: $("access"), onChange: typed });
const source = new SourcePane({ area: text, backdrop: $("backdrop"), counter: $("count") });
const target = new TargetPane(output, {
  onPoint: (token) => highlight(null, token),
  onDraw: () => inside.grow(),
  onWord: openMenu,
});
const inside = new InsideView($("inside"), highlight);
const direction = new Direction(() => {
  remember();
  typed();
});
const withTerms = (sent, languages) => ({ ...languages, glossary: terms.glossary(sent, languages) });
const translator = new Translator(
  { source, target, inside, state, beam: $("beam") },
  {
    api,
    fields: (sent) => withTerms(sent, direction.chosen),
    onBegin: begin,
    onStart: (translation) => (direction.suit(translation.source) ? translateNow() : direction.detect(translation)),
    onFinish: finish,
    onFail: fail,
    onReturn: reconnect,
  },
);
const terms = new TermsView($("terms"), { direction: () => direction.known, onChange: typed });
const earlier = new HistoryView($("history"), again);
const memory = new MemoryView($("memory"));
const hints = new Hints($("hint"), {
  languages: direction,
  detect: async (q) => (await api.ask("detect", { q, known: false })).json(),
  onTurn: (other) => direction.choose(other),
});
const ways = new OtherWays((fields) => api.ask("translate", { ...fields, ...withTerms(fields.q, direction.known) }));
const menu = new WordMenu($("ways"), {
  ways,
  onChange: (number, words) => correction.replace(number, words),
  onTerm: (term, translation) => terms.offer(term, translation),
});
const correction = new Correction(
  { target, bar: $("changed"), editor: $("editor") },
  { edit: $("edit"), undo: $("undo"), suggest: $("suggest") },
  { onChange: changed, onSuggest: suggest },
);
const documents = new DocumentView({
  chosen: () => ({ ...direction.chosen, key: api.key }),
  targetFor: (language) => direction.targetFor(language),
  wordsOf,
});
const voices = [
  new SpeechButton($("listen-source"), () => ({ text: source.text, language: direction.known.source })),
  new SpeechButton($("listen"), () => ({ text: target.text, language: direction.chosen.target })),
];
const live = new Live(
  { target, state },
  {
    fields: () => ({ ...withTerms(null, direction.known), api_key: api.key || undefined, alias }),
    onCommit: () => readable(false),
    onKept: () => state.say(t("What is translated already stays.")),
    onPause: () => {
      remember();
      hints.look(source.text);
    },
    onFinish: () => {
      remember();
      state.say("");
      earlier.add({ text: source.text, translation: target.text, ...direction.chosen });
    },
  },
);
const dictation = new Dictation($("speak"), {
  begin: () => {
    const codes = direction.languages.map(({ code }) => code);
    if (direction.known.source === AUTOMATIC) direction.choose({ source: preferred(codes)[0] });
    return { text: source.text, language: direction.known.source };
  },
  onHear: async (heard, isFinal) => {
    source.text = heard;
    setLive(true);
    await translateLive();
    if (isFinal) live.send({ final: true });
  },
  onFail: (reason) => ($("text-error").textContent = t("The microphone cannot be used: {reason}", { reason })),
});
// Captions have the same address each day, which nobody can guess.
const alias = browser.get("captions", crypto.getRandomValues(new Uint32Array(3)).join("-"));
let pause = 0; // in typing, before it is translated
let typing = null;

// --- the server

/** Take over what the server offers, as soon as it answers. */
async function connect() {
  const onWait = (reason) => state.wait(reason);
  const get = async (path) => (await checked(await answered(() => fetch(path), { onWait }))).json();
  const settings = await get("frontend/settings");
  const known = await get("languages");
  state.goOn();
  source.limit = settings.charLimit > 0 ? settings.charLimit : null;
  pause = settings.frontendTimeout;
  correction.suggests = settings.suggestions;
  if (settings.apiKeys) api.askForKey();
  documents.offer(settings);
  direction.offer(known, settings.language);
  source.text ||= readAddress().text ?? "";
}

/** The server that has returned may have other languages. */
async function reconnect() {
  await connect();
  if (translator.complete) direction.detect(translator.translation);
}

// --- translating

function begin() {
  if (!translator.running) direction.show(null); // there is no text
  correction.reset();
  hints.clear();
  memory.show(null);
  remember();
  readable(false);
}

/** Keep the text and its languages in the address, once there are languages. */
function remember() {
  if (direction.chosen.target) writeAddress({ text: source.text, ...direction.chosen, isChosen: direction.isChosen });
  $("link").hidden = source.empty || source.text.length > LONGEST_TEXT;
  $("captions").href = `live?${new URLSearchParams({ session: alias, language: direction.chosen.target })}`;
}

/** Offer what can be done with a translation that is complete. */
function readable(is) {
  $("edit").disabled = !is;
  $("copy").disabled = !is && !(live.on && target.text !== "");
  if (is) output.tabIndex = 0;
  else output.removeAttribute("tabindex");
  for (const voice of voices) voice.update();
}

function finish(translation) {
  state.finish(translation.done, $("inside").open);
  readable(true);
  changed();
  hints.look(translation.text, translation.source);
  if (target.text === translation.text) reconsider(translation.text);
  memory.show(translation, { source: translation.source, target: direction.chosen.target });
}

/** A short text that comes back as it was may be in the target's language, though the server took it for another. */
async function reconsider(sent) {
  const [first] = await hints.detected(sent);
  const found = first && direction.codeOf(first.language);
  if (source.text === sent && direction.suit(found)) translateNow();
}

/** The translation is another one than before. */
function changed() {
  $("announcement").textContent = target.text;
  earlier.add({ text: source.text, translation: target.text, ...direction.chosen });
}

async function fail(error, translation) {
  const { tokens, text: sent } = translation;
  direction.detect(translation); // perhaps it was refused before that
  readable(tokens > 0);
  state.say("");
  if (error.field === "source" && (await hints.explain(sent))) return;
  showError(error);
}

function stop() {
  dictation.stop();
  if (!translator.running) return;
  translator.stop();
  target.draw();
  inside.finish();
  readable(!target.empty);
  state.say(t("Stopped."));
}

/** Translate an entry of the history again. */
function again(entry) {
  direction.select(entry);
  source.text = entry.text;
  translateNow();
  text.focus();
}

function translateNow() {
  clearTimeout(typing);
  typing = null;
  if (live.on) translateLive();
  else translator.translate();
}

/** Translate the text as far as it has come, from a language that is certain. */
async function translateLive() {
  await translator.loaded;
  const detected = direction.known.source === AUTOMATIC ? await hints.other(source.text, AUTOMATIC) : null;
  if (direction.language(detected)) direction.choose({ source: detected });
  if (!live.on) return;
  if (direction.known.source === AUTOMATIC) hints.look(source.text, detected);
  else live.update(source.text);
}

function setLive(on) {
  if (on === live.on) return;
  $("live-text").checked = live.on = on;
  browser.set("live", on);
  browser.set("captions", alias);
  translator.reset();
  if (on) live.begin();
  else live.end();
  if (!source.empty) translateNow();
}

function typed() {
  dictation.stop(); // it would write over what was typed, and it hears one language
  source.count();
  highlight(null, null);
  clearTimeout(typing);
  hints.clear();
  if (live.on) {
    translateNow();
  } else if (source.empty) {
    translator.reset();
    remember();
  } else if ($("typing").checked) {
    translator.expect();
    typing = setTimeout(translateNow, pause);
  }
}

/** Mark a token of a sentence, and the part of the text that it comes from. */
function highlight(sentence, token) {
  source.mark(inside.translation?.text === source.text ? token?.from : null);
  if (sentence || !token) target.markToken(sentence?.number ?? null, token?.index);
}

// --- what the reader changes

function openMenu(word) {
  const sentence = translator.translation.sourceOf(word.number);
  if (sentence === "") return; // it was stopped before its end
  menu.open({ ...word, sentence });
  target.mark(word.nodes);
}

/** Send the translation as a better one. Returns whether the server has it. */
async function suggest() {
  try {
    await api.ask("suggest", { q: source.text, s: target.text, ...direction.known });
  } catch (error) {
    showError(error);
    return false;
  }
  state.say(t("Thank you. The server has kept your suggestion."));
  return true;
}

// --- events

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  translateNow();
});
text.addEventListener("input", typed);
for (const pane of [text, output]) {
  // A reader who scrolls is not moved to the end any more.
  for (const sign of ["wheel", "touchmove"])
    pane.addEventListener(sign, () => (target.following = false), { passive: true });
}
$("beam").addEventListener("change", translateNow);
$("typing").checked = browser.get("typing", true);
$("typing").addEventListener("change", () => browser.set("typing", $("typing").checked));
$("live-text").addEventListener("change", () => setLive($("live-text").checked));
$("inside").open = browser.get("inside", false);
$("inside").addEventListener("toggle", () => {
  const { open } = $("inside");
  if (open === browser.get("inside", false)) return;
  browser.set("inside", open);
  if (open) translateNow();
});
$("swap").addEventListener("click", () =>
  direction.swap(() => {
    const translated = translator.complete && translator.translation.source !== direction.chosen.target;
    if (live.on ? target.shown : translated) source.text = target.shown;
  }),
);
$("stop").addEventListener("click", stop);
$("copy").addEventListener("click", () => copy($("copy"), target.text));
$("link").addEventListener("click", () => copy($("link"), location.href));
$("clear").addEventListener("click", () => {
  source.text = "";
  typed();
  text.focus();
});
offerInterfaces($("interface"), remember);
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translateNow();
  if (event.key === "Escape") stop();
});
scrollTogether([text, output]);
readable(false);
translator.loaded = connect();
setLive(browser.get("live", false) === true);
try {
  await translator.loaded;
  if (!source.empty && !translator.running && typing === null) translateNow();
} catch (error) {
  showError(error);
}
