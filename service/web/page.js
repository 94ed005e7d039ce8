// Connects the page with the server: sends the text, and shows the events of its stream.

import { readAddress, writeAddress } from "./address.js";
import { copy, copyButton } from "./clipboard.js";
import { DocumentView } from "./document.js";
import { decimal, element } from "./elements.js";
import { HistoryView } from "./history.js";
import { InsideView } from "./inside.js";
import { scrollTogether } from "./panes.js";
import { SpeechButton } from "./speech.js";
import { resumable } from "./stream.js";
import { Translation, TranslationError } from "./translation.js";

const CANDIDATES = 5;
const FRAME_MILLISECONDS = 16;
const RESTS = 4; // times as long as it was drawing, a page leaves to its reader
const AUTOMATIC = "auto";
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
const END = "\u200b"; // so that a line end at the end of a text makes a line
const KEPT_KEY = "api-key"; // in the storage of the tab

const $ = (id) => document.getElementById(id);
const [form, text, output, from, to] = ["form", "text", "output", "from", "to"].map($);
const inside = new InsideView($("inside"), highlight);
const names = new Intl.DisplayNames(["en"], { type: "language" });

let languages = [];
let limit = null;
let pause = 0; // in typing, before it is translated
let running = null;
let typing = null;
let drawing = null;
let effort = 0; // milliseconds that the last drawing took
const undrawn = document.createDocumentFragment();
const earlier = new HistoryView($("history"), { onChoose: again, nameOf });
const voices = [
  new SpeechButton($("listen-source"), () => ({ text: text.value, language: sourceLanguage() })),
  new SpeechButton($("listen"), () => ({ text: output.textContent, language: to.value })),
];
let reading = true; // at the end of the translation, and to be kept there

// --- languages

async function load() {
  const [settings, known] = await Promise.all(["frontend/settings", "languages"].map(getJson));
  // A language is one of its own targets, for clients that want a copy; some languages are only targets.
  languages = known
    .map((each) => ({ ...each, targets: each.targets.filter((code) => code !== each.code) }))
    .filter(({ targets }) => targets.length > 0);
  limit = settings.charLimit > 0 ? settings.charLimit : null;
  pause = settings.frontendTimeout;
  const detects = settings.language.source.code === AUTOMATIC;
  from.replaceChildren(...languages.map(({ code, name }) => new Option(name, code)));
  if (detects) from.prepend(new Option("Detect language", AUTOMATIC, true, true));
  const wanted = readAddress();
  if ([...from.options].some(({ value }) => value === wanted.source)) from.value = wanted.source;
  listTargets(settings.language.target.code);
  if ([...to.options].some(({ value }) => value === wanted.target)) listTargets(wanted.target);
  if (text.value === "") text.value = wanted.text ?? "";
  count();
  if (settings.apiKeys) askForKey();
  new DocumentView(settings, () => ({ source: from.value, target: to.value, key: $("key").value.trim() }));
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

function listTargets(wanted) {
  const chosen = languages.find(({ code }) => code === from.value);
  const codes = chosen ? chosen.targets : [...new Set(languages.flatMap(({ targets }) => targets))].sort();
  const mark = (code) => (chosen?.downloadable?.includes(code) ? " (is downloaded first)" : "");
  to.replaceChildren(...codes.map((code) => new Option(nameOf(code) + mark(code), code)));
  if (codes.includes(wanted)) to.value = wanted;
  text.lang = from.value === AUTOMATIC ? "" : from.value;
  output.lang = to.value;
  $("detected").textContent = "";
  const back = canSwap();
  $("swap").disabled = !back;
  $("swap").title = back ? "Swap languages" : "This server does not translate in the other direction";
}

function nameOf(code) {
  if (code === AUTOMATIC) return "Detected";
  return languages.find((each) => each.code === code)?.name ?? names.of(code);
}

function canSwap() {
  const reverse = languages.find(({ code }) => code === to.value);
  return from.value !== AUTOMATIC && reverse?.targets.includes(from.value);
}

/** The language of the text, as far as it is known. */
function sourceLanguage() {
  return from.value === AUTOMATIC ? inside.translation?.source : from.value;
}

function swap() {
  const [old, translated] = [from.value, output.textContent];
  from.value = to.value;
  listTargets(old);
  if (translated) text.value = translated;
  typed();
}

// --- errors, at the field that they are about

function showError(error) {
  const place = error.code === WRONG_KEY ? "key" : (ERROR_PLACES[error.field] ?? "output");
  $(`${place}-error`).textContent = place === "output" ? error.message : (error.problem ?? error.message);
  if (place === "text") text.setAttribute("aria-invalid", "true");
}

function clearErrors() {
  for (const node of document.querySelectorAll(".error[role=alert]")) node.textContent = "";
  text.removeAttribute("aria-invalid");
}

// --- translating

function request() {
  const body = { q: text.value, source: from.value, target: to.value, stream: true, scores: true };
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
  clearTimeout(drawing);
  drawing = null;
  undrawn.replaceChildren();
  output.replaceChildren();
  $("others").hidden = true;
  $("timing").textContent = "";
  $("copy").disabled = true;
  inside.show(null);
  for (const voice of voices) voice.update();
}

/** Keep the text and its languages in the address, once there are languages. */
function remember() {
  if (languages.length > 0) writeAddress({ text: text.value, source: from.value, target: to.value });
}

/** Translate an entry of the history again. */
function again(entry) {
  from.value = entry.source;
  listTargets(entry.target);
  text.value = entry.text;
  count();
  translate();
  text.focus();
}

async function translate() {
  clearTimeout(typing);
  reset();
  if (text.value.trim() === "") return;
  const mine = (running = new AbortController());
  const translation = new Translation(text.value);
  inside.show(translation);
  reading = true;
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
      if (event.event === "token") append(translation, event.data.segment);
      if (event.event === "loading") showLoading(event.data);
      else drawSoon(translation);
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

function append(translation, segment) {
  const token = translation.sentences[segment].tokens.at(-1);
  const word = token.text.trimStart();
  const span = element("span", { class: "token" }, [word]);
  if (token.from) {
    span.addEventListener("pointerenter", () => highlight(null, token));
    span.addEventListener("pointerleave", () => highlight(null, null));
  }
  undrawn.append(token.text.slice(0, token.text.length - word.length), span);
}

/** Delay updates a little: tokens can arrive faster than people read, and the layout of a long text takes time. */
function drawSoon(translation) {
  drawing ??= setTimeout(() => {
    const began = performance.now();
    $("timing").textContent = `${translation.tokens} tokens`;
    draw();
    effort = performance.now() - began;
  }, FRAME_MILLISECONDS + RESTS * effort);
}

function draw() {
  clearTimeout(drawing);
  drawing = null;
  output.append(undrawn);
  $("copy").disabled = output.childElementCount === 0;
  inside.grow();
  if (reading) output.scrollTop = output.scrollHeight;
}

function finish(translation) {
  draw();
  const { usage, timings, alternatives = [], alternativeScores = [] } = translation.done;
  const milliseconds = (1000 * timings.time_to_first_token_seconds).toFixed(0);
  const rate = Math.round(usage.generated_tokens / timings.total_seconds);
  $("timing").textContent = usage.generated_tokens
    ? `First token ${milliseconds} ms · ${usage.generated_tokens} tokens · ${rate} tokens/s`
    : "Nothing to translate: the text was copied";
  $("others").hidden = alternatives.length === 0;
  $("others").querySelector("ol").replaceChildren(
    ...alternatives.map((each, rank) =>
      element("li", { lang: to.value }, [
        element("span", { class: "text" }, [each]),
        element("span", { class: "quiet", title: "mean log-probability" }, [decimal(alternativeScores[rank])]),
        copyButton(each, `Copy alternative ${rank + 1}`),
      ]),
    ),
  );
  $("announcement").textContent = output.textContent;
  earlier.add({ text: translation.text, translation: output.textContent, source: from.value, target: to.value });
  for (const voice of voices) voice.update();
  inside.finish();
}

function end(translation, error) {
  draw();
  inside.finish();
  if (error.name !== "AbortError") return showError(error);
  $("timing").textContent = `Stopped after ${translation.tokens} tokens`;
  $("announcement").textContent = "Stopped.";
}

function stop() {
  running?.abort();
}

function showDetected({ source, pivot }) {
  const said = from.value === AUTOMATIC ? [`detected: ${nameOf(source)}`] : [];
  if (pivot) said.push(`by way of ${nameOf(pivot)}`);
  $("detected").textContent = said.join(", ");
}

// --- the text and its highlights

function typed() {
  count();
  highlight(null, null);
  clearTimeout(typing);
  if (text.value.trim() === "") {
    reset();
    remember();
  } else if ($("live").checked) typing = setTimeout(translate, pause);
}

function count() {
  const characters = Array.from(text.value).length;
  $("count").textContent = `${characters.toLocaleString("en")}${limit ? ` of ${limit.toLocaleString("en")}` : ""} characters`;
}

/** Mark the source of a token, behind the text area, and the token itself. */
function highlight(sentence, token) {
  const backdrop = $("backdrop");
  backdrop.replaceChildren(`${text.value}${END}`);
  if (token?.from && inside.translation?.text === text.value) {
    const [start, end] = token.from;
    const marked = element("mark", {}, [text.value.slice(start, end)]);
    backdrop.replaceChildren(text.value.slice(0, start), marked, `${text.value.slice(end)}${END}`);
  }
  scroll();
  output.querySelector(".token.current")?.classList.remove("current");
  if (sentence && token) tokenSpan(sentence, token)?.classList.add("current");
}

function tokenSpan(sentence, token) {
  const earlier = inside.translation.sentences.slice(0, sentence.number).reduce((sum, { tokens }) => sum + tokens.length, 0);
  return output.children[earlier + token.index];
}

function scroll() {
  $("backdrop").scrollTop = text.scrollTop;
}

// --- events

form.addEventListener("submit", (event) => {
  event.preventDefault();
  translate();
});
text.addEventListener("input", typed);
text.addEventListener("scroll", scroll);
for (const pane of [text, output]) {
  for (const sign of ["wheel", "touchmove"]) pane.addEventListener(sign, () => (reading = false), { passive: true });
}
for (const language of [from, to]) {
  language.addEventListener("change", () => {
    listTargets(to.value);
    remember();
    typed();
  });
}
for (const id of ["alternatives", "beam"]) $(id).addEventListener("change", translate);
$("inside").addEventListener("toggle", () => $("inside").open && translate());
$("swap").addEventListener("click", swap);
$("stop").addEventListener("click", stop);
$("copy").addEventListener("click", () => copy($("copy"), output.textContent, output));
$("clear").addEventListener("click", () => {
  text.value = "";
  typed();
  text.focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
  if (event.key === "Escape") stop();
});
const loaded = load();
loaded.then(() => text.value !== "" && running === null && typing === null && translate()).catch(showError);
scrollTogether([text, output]);
