// Firefox's translation engine behind LibreTranslate's route: run by Node.js.
//
//     node bergamot_server.mjs PORT DIRECTORY MODULE
//
// DIRECTORY has one direction's files as Firefox downloads them. MODULE is the engine's translator.js, of npm's
// @browsermt/bergamot-translator. There is a worker for each core, and no cache.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";

const [port, directory, module] = process.argv.slice(2);
const address = `http://127.0.0.1:${port}`;
const { BatchTranslator } = await import(pathToFileURL(resolve(module)));

const registry = {};
for (const name of readdirSync(directory)) {
  const [, kind, pair] = /^(model|vocab|lex)(?:\.\d+)*\.([a-z]{4})\./.exec(name) ?? [];
  if (!kind) continue;
  const content = readFileSync(join(directory, name));
  const expectedSha256Hash = createHash("sha256").update(content).digest("hex");
  registry[pair] ??= {};
  registry[pair][kind] = { name: `${address}/${name}`, size: content.length, expectedSha256Hash, modelType: "prod" };
}

let translator;

async function answer(request) {
  if (request.url === "/registry.json") return JSON.stringify(registry);
  if (request.method === "GET") return readFileSync(join(directory, request.url));
  const { q, source, target } = JSON.parse(await text(request));
  const { target: translated } = await translator.translate({ from: source, to: target, text: q, html: false });
  return JSON.stringify({ translatedText: translated.text });
}

createServer((request, response) => {
  answer(request).then(
    (body) => response.setHeader("content-type", "application/json").end(body),
    (error) => response.writeHead(500).end(String(error)),
  );
}).listen(Number(port), "127.0.0.1", () => {
  // The engine asks this server for its files.
  translator = new BatchTranslator({
    registryUrl: `${address}/registry.json`,
    workers: availableParallelism(),
    batchSize: 8,
    cacheSize: 0,
    pivotLanguage: null,
  });
});
