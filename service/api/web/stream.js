// A stream of events over as many connections as it takes. Knows nothing of the page.

import { serverSentEvents } from "./sse.js";

const FIRST_WAIT_MILLISECONDS = 250;
const LONGEST_WAIT_MILLISECONDS = 8000;
const ATTEMPTS = 8; // without an event in between
const BUSY = [429, 502, 503]; // 502 comes from a proxy whose server is gone
const LAST_EVENTS = ["done", "error"];

/**
 * Yield the events of `response`. If its connection breaks, `send(id)` repeats the request from the last event's id;
 * `onBreak` hears of it first. Throw `lost()` if nothing helps, and the abortion of `signal` at once.
 */
export async function* resumable(response, { send, onBreak, lost, signal }) {
  let id = null;
  let failures = 0;
  for (;;) {
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
    do {
      // Without an event there is nothing to resume: whoever wants to may send the request again.
      if (id === null || failures >= ATTEMPTS) throw lost();
      onBreak();
      await rest(Math.min(FIRST_WAIT_MILLISECONDS * 2 ** failures, LONGEST_WAIT_MILLISECONDS), signal);
      failures += 1;
      response = await attempt(() => send(id), signal);
    } while (response === null);
  }
}

/** Return a response, or null if the next attempt may succeed. */
async function attempt(send, signal) {
  try {
    const response = await send();
    return BUSY.includes(response.status) ? null : response;
  } catch (error) {
    if (signal.aborted || !(error instanceof TypeError)) throw error;
    return null; // no server answers
  }
}

function rest(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
