// Server-sent events from a fetch, which unlike EventSource can post and be stopped.

const WORK_MILLISECONDS = 10;

/** Yields {event, data} of a response, data parsed; a stream that ends without its last event just ends. */
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
      if (fields.data) yield { event: fields.event, data: JSON.parse(fields.data) };
      // A stream that is faster than the page would leave no moment for clicks and keys.
      if (performance.now() - rested > WORK_MILLISECONDS) {
        await new Promise((resolve) => setTimeout(resolve));
        rested = performance.now();
      }
    }
  }
}
