// Connects the page with the server: sends the text, and shows the events of its stream.

import { readAddress, writeAddress } from "./address.js";
import { copy, copyButton } from "./clipboard.js";
import { DocumentView } from "./document.js";
import { decimal, element } from "./elements.js";
import { HistoryView } from "./history.js";
import { InsideView } from "./inside.js";
import { AUTOMATIC, Languages } from "./languages.js";
import { scrollTogether } from "./panes.js";
import { SourcePane } from "./source_pane.js";
import { SpeechButton } from "./speech.js";
import { resumable } from "./stream.js";
import { TargetPane } from "./target_pane.js";
import { Translation, TranslationError } from "./translation.js";

const CANDIDATES = 5;
const ERROR_PLACES = {
  q: "text",
  source: "language",
  target: "language",
  alternatives: "option",
  beam_size: "option",
  hypotheses: "option",
  api_key: "key",
};
const WRONG_KEY = "invalid_key";
const NO_KEY = "key_required";
const LONGEST_CODE = 16; // of a language
const KEPT_KEY = "api-key"; // in the storage of the tab

const $ = (id) => document.getElementById(id);
const [form, text, output] = ["form", "text", "output"].map($);
const source = new SourcePane({ area: text, backdrop: $("backdrop"), counter: $("count") });
const target = new TargetPane(output, { onPoint: (token) => highlight(null, token), onDraw: drawn });
const inside = new InsideView($("inside"), highlight);
const languages = new Languages({ from: $("from"), to: $("to"), button: $("swap"), onChange: showLanguages });
const earlier = new HistoryView($("history"), { onChoose: again, nameOf: (code) => languages.nameOf(code) });
const voices = [
  new SpeechButton($("listen-source"), () => ({ text: source.text, language: sourceLanguage() })),
  new SpeechButton($("listen"), () => ({ text: target.text, language: languages.target })),
];

let pause = 0; // in typing, before it is translated
let running = null;
let typing = null;

// --- languages

async function load() {
  const [settings, known] = await Promise.all(["frontend/settings", "languages"].map(getJson));
  source.limit = settings.charLimit > 0 ? settings.charLimit : null;
  pause = settings.frontendTimeout;
  languages.fill(known, settings.language.source.code === AUTOMATIC);
  languages.choose({ target: settings.language.target.code });
  const wanted = readAddress();
  languages.choose(wanted);
  if (wanted.target && wanted.target !== languages.target)
    $("unavailable").textContent = `The link's language “${wanted.target.slice(0, LONGEST_CODE)}” is not available.`;
  source.text ||= wanted.text ?? "";
  source.count();
  if (settings.apiKeys) askForKey();
  new DocumentView(settings, () => ({ ...chosen(), key: $("key").value.trim() }));
}

/** The chosen languages. */
function chosen() {
  return { source: languages.source, target: languages.target };
}

function askForKey() {
  $("access").hidden = false;
  $("key").value = sessionStorage.getItem(KEPT_KEY) ?? "";
  $("key").addEventListener("input", () => {
    sessionStorage.setItem(KEPT_KEY, $("key").value);
    typed();
  });
}

async function getJson(path) {
  const response = await fetch(path);
  const error = await errorOf(response);
  if (error) throw error;
  return response.json();
}

function showLanguages() {
  text.lang = languages.source === AUTOMATIC ? "" : languages.source;
  output.lang = languages.target;
  $("detected").textContent = "";
  $("unavailable").textContent = "";
}

/** The language of the text, as far as it is known. */
function sourceLanguage() {
  return languages.source === AUTOMATIC ? inside.translation?.source : languages.source;
}

function swap() {
  languages.swap();
  if (target.text) source.text = target.text;
  typed();
}

// --- errors, at the field that they are about

function showError(error) {
  const place = error.code === WRONG_KEY ? "key" : (ERROR_PLACES[error.field] ?? "output");
  const problem = place === "output" ? error.message : (error.problem ?? error.message);
  // The server's words are for people who write requests.
  $(`${place}-error`).textContent = error.code === NO_KEY ? "This server requires an API key." : problem;
  if (place === "text") text.setAttribute("aria-invalid", "true");
}

function clearErrors() {
  for (const node of document.querySelectorAll(".error[role=alert]")) node.textContent = "";
  text.removeAttribute("aria-invalid");
}

// --- translating

function request() {
  const body = { q: source.text, ...chosen(), stream: true, scores: true };
  if ($("key").value) body.api_key = $("key").value.trim();
  if ($("alternatives").value !== "0") body.alternatives = Number($("alternatives").value);
  if ($("beam").value) body.beam_size = Number($("beam").value);
  if ($("inside").open) Object.assign(body, { attention: true, self_attention: true, top_candidates: CANDIDATES });
  if ($("inside").open && (body.beam_size ?? (body.alternatives ? 2 : 1)) > 1) body.hypotheses = true;
  return body;
}

function reset() {
  stop();
  clearErrors();
  target.clear();
  $("others").hidden = true;
  $("timing").textContent = "";
  $("copy").disabled = true;
  inside.show(null);
  for (const voice of voices) voice.update();
}

/** Keep the text and its languages in the address, once there are languages. */
function remember() {
  if (languages.target) writeAddress({ text: source.text, ...chosen() });
}

/** Translate an entry of the history again. */
function again(entry) {
  languages.choose(entry);
  source.text = entry.text;
  translate();
  text.focus();
}

async function translate() {
  clearTimeout(typing);
  reset();
  if (source.empty) return;
  const mine = (running = new AbortController());
  const translation = new Translation(source.text);
  inside.show(translation);
  busy(true);
  try {
    await loaded;
    const body = request();
    remember();
    const { signal } = mine;
    let response = await send(body, { signal });
    let error = await errorOf(response);
    if (body.attention && ["attention", "alignment"].includes(error?.field)) {
      // A translation through a pivot language has none.
      delete body.attention;
      response = await send(body, { signal });
      error = await errorOf(response);
    }
    if (error) throw error;
    const events = resumable(response, {
      signal,
      send: (id) => send(body, { signal, id }),
      onBreak: () => ($("timing").textContent = "The connection was lost; going on as soon as it is back"),
      lost: () => new TranslationError({ error: "The connection was lost." }),
    });
    for await (const event of events) {
      translation.apply(event);
      if (event.event === "start") showDetected(translation);
      if (event.event === "token") target.append(translation.sentences[event.data.segment].tokens.at(-1));
      if (event.event === "loading") showLoading(event.data);
      else target.drawSoon();
    }
    finish(translation);
  } catch (error) {
    if (running === mine) end(translation, error);
  } finally {
    if (running === mine) busy(false);
  }
}

/** Show the progress of a model that the server fetches for this translation. */
function showLoading({ model, step, percent }) {
  $("timing").textContent = `${model}: ${step}${percent === null ? "" : ` ${percent} %`}`;
}

function send(body, { signal, id }) {
  const headers = { "Content-Type": "application/json", ...(id && { "Last-Event-ID": id }) };
  return fetch("translate", { method: "POST", headers, body: JSON.stringify(body), signal });
}

async function errorOf(response) {
  return response.ok ? null : new TranslationError(await response.json());
}

function busy(is) {
  output.setAttribute("aria-busy", String(is));
  $("stop").disabled = !is;
}

function drawn() {
  const { tokens } = inside.translation;
  $("timing").textContent = tokens > 0 ? `${tokens} tokens` : "";
  $("copy").disabled = target.empty;
  inside.grow();
}

function finish(translation) {
  target.draw();
  const { usage, timings, alternatives = [], alternativeScores = [] } = translation.done;
  const milliseconds = (1000 * timings.time_to_first_token_seconds).toFixed(0);
  const rate = Math.round(usage.generated_tokens / timings.total_seconds);
  $("timing").textContent = usage.generated_tokens
    ? `First token ${milliseconds} ms · ${usage.generated_tokens} tokens · ${rate} tokens/s`
    : "Nothing to translate: the text was copied";
  $("others").hidden = alternatives.length === 0;
  $("others").querySelector("ol").replaceChildren(
    ...alternatives.map((each, rank) =>
      element("li", { lang: languages.target }, [
        element("span", { class: "text" }, [each]),
        element("span", { class: "quiet", title: "mean log-probability" }, [decimal(alternativeScores[rank])]),
        copyButton(each, `Copy alternative ${rank + 1}`),
      ]),
    ),
  );
  $("announcement").textContent = target.text;
  earlier.add({ text: translation.text, translation: target.text, ...chosen() });
  for (const voice of voices) voice.update();
  inside.finish();
}

function end(translation, error) {
  target.draw();
  inside.finish();
  if (error.name !== "AbortError") return showError(error);
  $("timing").textContent = `Stopped after ${translation.tokens} tokens`;
  $("announcement").textContent = "Stopped.";
}

function stop() {
  running?.abort();
}

function showDetected({ source: detected, pivot }) {
  const notes = languages.source === AUTOMATIC ? [`detected: ${languages.nameOf(detected)}`] : [];
  if (pivot) notes.push(`by way of ${languages.nameOf(pivot)}`);
  $("detected").textContent = notes.join(", ");
}

// --- the text and its highlights

function typed() {
  source.count();
  highlight(null, null);
  clearTimeout(typing);
  if (source.empty) {
    reset();
    remember();
  } else if ($("live").checked) typing = setTimeout(translate, pause);
}

/** Mark a token of a sentence, and the part of the text that it comes from. */
function highlight(sentence, token) {
  source.mark(inside.translation?.text === source.text ? token?.from : null);
  target.mark(sentence && token ? inside.translation.position(sentence, token) : -1);
}

// --- events

form.addEventListener("submit", (event) => {
  event.preventDefault();
  translate();
});
text.addEventListener("input", typed);
for (const pane of [text, output]) {
  // A reader who scrolls is not moved to the end any more.
  for (const sign of ["wheel", "touchmove"]) pane.addEventListener(sign, () => (target.following = false), { passive: true });
}
for (const list of ["from", "to"]) {
  $(list).addEventListener("change", () => {
    languages.choose();
    remember();
    typed();
  });
}
for (const id of ["alternatives", "beam"]) $(id).addEventListener("change", translate);
$("inside").addEventListener("toggle", () => $("inside").open && translate());
$("swap").addEventListener("click", swap);
$("stop").addEventListener("click", stop);
$("copy").addEventListener("click", () => copy($("copy"), target.text, output));
$("clear").addEventListener("click", () => {
  source.text = "";
  typed();
  text.focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
  if (event.key === "Escape") stop();
});
const loaded = load();
loaded.then(() => source.text !== "" && running === null && typing === null && translate()).catch(showError);
scrollTogether([text, output]);
