// Requests that wait for their server, one that starts, is away or is busy; and streams of events over as many
// connections as it takes. Knows nothing of the page.

const FIRST_WAIT_MILLISECONDS = 250;
const LONGEST_WAIT_MILLISECONDS = 4000;
const LONGEST_REQUESTED_MILLISECONDS = 60_000;
const NO_USE = ["quota_exceeded"]; // refusals with 429 that no patience helps

/**
 * Return the first response that is no reason to wait. `onWait(reason)` hears of each one that is: "away", "starting"
 * or "busy". Throws the abortion of `signal` at once.
 */
export async function answered(send, { onWait, signal }) {
  for (let failures = 0; ; failures += 1) {
    const { response, reason, milliseconds = 0 } = await attempt(send, signal);
    if (!reason) return response;
    signal?.throwIfAborted(); // the answer may have come before the abortion
    onWait(reason);
    await pause(failures, signal, milliseconds);
  }
}

/** Wait before another attempt: longer after each failure, and at least `least`. */
export function pause(failures, signal, least = 0) {
  const wait = Math.min(FIRST_WAIT_MILLISECONDS * 2 ** failures, LONGEST_WAIT_MILLISECONDS);
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, Math.max(wait, least));
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

async function attempt(send, signal) {
  let response;
  try {
    response = await send();
  } catch (error) {
    if (signal?.aborted || !(error instanceof TypeError)) throw error;
    return { reason: "away" }; // no server answers
  }
  if (response.status === 502) return { reason: "away" }; // from a proxy whose server is gone
  if (response.status === 503) return { reason: "starting" };
  if (response.status !== 429) return { response };
  const { code } = await response.clone().json().catch(() => ({}));
  if (NO_USE.includes(code)) return { response };
  const requested = 1000 * Number(response.headers.get("Retry-After"));
  return { reason: "busy", milliseconds: Math.min(requested || 0, LONGEST_REQUESTED_MILLISECONDS) };
}

/** An error of the server; `field` and `problem` are the parts of a message about a field. */
export class ServerError extends Error {
  constructor({ error, code, detail }) {
    super(detail ?? error ?? "");
    this.code = code;
    [, this.field, this.problem] = /^([a-z_]+)(?:\.\w+)*: (.*)$/s.exec(this.message) ?? [];
  }
}

/** Return the response; throws what it refuses. */
export async function checked(response) {
  if (response.ok) return response;
  throw new ServerError(await response.json().catch(() => ({})));
}

const WORK_MILLISECONDS = 10;

/** Yield {id, event, data} of a response with parsed data; a stream without its last event ends without an error. */
export async function* serverSentEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  let rested = performance.now();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (buffer + value).split("\r\n\r\n");
    buffer = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\r\n").map((line) => line.split(/: (.*)/s, 2)));
      if (fields.data) yield { id: fields.id, event: fields.event, data: JSON.parse(fields.data) };
      // Yield to clicks and keys: a stream can be faster than the page.
      if (performance.now() - rested > WORK_MILLISECONDS) {
        await new Promise((resolve) => setTimeout(resolve));
        rested = performance.now();
      }
    }
  }
}

const LAST_EVENTS = ["done", "error"];

/**
 * Yield the events of a request, which `send(id)` sends or, after the event `id`, resumes. `onWait(reason)` hears of
 * each time that the server does not answer or the connection breaks. Throws what the server refuses, and the abortion
 * of `signal` at once.
 */
export async function* events(send, { onWait, signal }) {
  let id = null;
  for (let failures = 0; ; failures += 1) {
    const response = await checked(await answered(() => send(id), { onWait, signal }));
    try {
      for await (const event of serverSentEvents(response)) {
        failures = 0;
        id = event.id ?? id;
        yield event;
        if (LAST_EVENTS.includes(event.event)) return;
      }
    } catch (error) {
      if (signal.aborted) throw error;
    }
    signal.throwIfAborted(); // all that was received may have come before the abortion
    onWait("away");
    await pause(failures, signal);
  }
}
