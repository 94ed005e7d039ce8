// Requests that wait for their server: one that starts, is away or is busy. Knows nothing of the page.

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
