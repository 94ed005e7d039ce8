// Captions: the committed translation of a live session that somebody else feeds, in large letters. New words only ever
// come at the end, and lines move up when there is a new one.

import { localize } from "./texts.js";

const RETRY_MILLISECONDS = 2000;
const LONG_BLOCK = 400; // characters, after which the next sentence begins a new line
const KEPT_BLOCKS = 3;

const query = new URLSearchParams(location.search);
const root = document.getElementById("captions");
let end = 0; // the number of characters that have been committed
let connected = false; // and nothing was committed since

function commit({ index, text }) {
  // A new session, or the same one from its beginning: unless it goes on where the last one was.
  if (connected && index !== end) root.replaceChildren();
  connected = false;
  if (root.childElementCount === 0) startBlock();
  root.lastChild.append(text);
  end = index + Array.from(text).length;
}

function startBlock() {
  root.append(Object.assign(document.createElement("p"), { dir: "auto" }));
  // What is removed is far above the lines that can be seen.
  while (root.childElementCount > KEPT_BLOCKS) root.firstChild.remove();
}

function follow() {
  const source = new EventSource(`translate/live/${encodeURIComponent(query.get("session") ?? "")}`);
  const again = () => {
    source.close();
    setTimeout(follow, RETRY_MILLISECONDS);
  };
  source.addEventListener("start", () => (connected = true));
  source.addEventListener("commit", ({ data }) => commit(JSON.parse(data)));
  source.addEventListener("segment", () => {
    if (root.lastChild?.textContent.length > LONG_BLOCK) startBlock();
  });
  for (const event of ["done", "error"]) source.addEventListener(event, again); // of the session and of the connection
}

await localize();
root.lang = query.get("language") ?? "";
for (const [name, most] of Object.entries({ size: 40, lines: 20 })) {
  const value = Number(query.get(name));
  if (value >= 1 && value <= most) document.documentElement.style.setProperty(`--${name}`, value);
}
follow();
