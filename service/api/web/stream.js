// A stream of events over as many connections as it takes. Knows nothing of the page.

import { answered, checked, pause } from "./server.js";
import { serverSentEvents } from "./sse.js";

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
