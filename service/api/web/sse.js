// Server-sent events of a fetch, which unlike EventSource can send a POST and be stopped.

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
