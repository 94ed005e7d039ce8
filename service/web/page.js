"use strict";

// Streams a translation into the page. Ctrl+Enter translates, Escape stops.

const source = document.querySelector("#source");
const target = document.querySelector("#target");
const status = document.querySelector("#status");
const stopButton = document.querySelector("#stop");
const languages = { source: "en", target: "fr" };
let running = null;

async function loadLanguages() {
  const [first] = await (await fetch("/languages")).json();
  const names = new Intl.DisplayNames(["en"], { type: "language" });
  languages.source = first.code;
  languages.target = first.targets[0];
  document.querySelector("#source-language").textContent = first.name;
  document.querySelector("#target-language").textContent = names.of(languages.target);
  source.lang = languages.source;
  target.lang = languages.target;
}

/** Yields {event, data} from a fetch response of server-sent events. */
async function* serverSentEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer += value;
    const blocks = buffer.split("\r\n\r\n");
    buffer = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\r\n").map((line) => line.split(/: (.*)/s, 2)));
      if (fields.data) yield { event: fields.event, data: JSON.parse(fields.data) };
    }
  }
}

async function translate() {
  stop();
  const mine = (running = new AbortController());
  target.textContent = "";
  status.textContent = "";
  target.setAttribute("aria-busy", "true");
  stopButton.disabled = false;
  try {
    const response = await fetch("/translate", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ q: source.value, ...languages, stream: true }),
      signal: mine.signal,
    });
    if (!response.ok) throw new Error((await response.json()).error);
    for await (const { event, data } of serverSentEvents(response)) {
      if (event === "token") target.append(data.text);
      if (event === "error") throw new Error(data.error);
      if (event === "done") status.textContent = summary(data);
    }
  } catch (error) {
    if (running === mine) status.textContent = error.name === "AbortError" ? "Stopped." : error.message;
  } finally {
    if (running === mine) {
      target.setAttribute("aria-busy", "false");
      stopButton.disabled = true;
    }
  }
}

function summary({ usage, timings }) {
  const milliseconds = (1000 * timings.time_to_first_token_seconds).toFixed(0);
  const rate = (usage.generated_tokens / timings.total_seconds).toFixed(0);
  return `First token after ${milliseconds} ms, ${usage.generated_tokens} tokens, ${rate} tokens/s`;
}

function stop() {
  running?.abort();
}

document.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  translate();
});
stopButton.addEventListener("click", stop);
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
  if (event.key === "Escape") stop();
});
loadLanguages().catch((error) => {
  status.textContent = error.message;
});
