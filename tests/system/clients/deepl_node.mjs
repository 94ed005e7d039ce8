// Drives DeepL's client for Node.js against a server, and prints what it received as JSON: SERVER, WORK in the environment.

import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";

const { SERVER, WORK } = process.env;
const deepl = createRequire(join(WORK, "package.json"))("deepl-node");
const client = new deepl.DeepLClient("any key", { serverUrl: SERVER });
const seen = {};

seen.text = (await client.translateText("I see a cat.", "en", "fr")).text;
seen.batch = (await client.translateText(["Yes.", "42"], null, "fr")).map(({ text }) => text);
const xml = { tagHandling: "xml", ignoreTags: ["x"] };
seen.xml = (await client.translateText("<p>I see a <b>black</b> cat.</p>", "en", "fr", xml)).text;
seen.languages = [await client.getSourceLanguages(), await client.getTargetLanguages()].map((all) =>
  all.map(({ code, name }) => [code, name]),
);
seen.characters = (await client.getUsage()).character.count;

const entries = new deepl.GlossaryEntries({ entries: { cat: "matou" } });
const glossary = await client.createGlossary("animals", "en", "fr", entries);
seen.glossary = [
  (await client.listGlossaries()).map(({ name }) => name),
  (await client.getGlossaryEntries(glossary)).toTsv(),
  (await client.translateText("A cat.", "en", "fr", { glossary })).text,
];
await client.deleteGlossary(glossary);

const many = await client.createMultilingualGlossary("many", [
  { sourceLangCode: "en", targetLangCode: "fr", entries },
]);
seen.multilingual = [
  many.dictionaries.map(({ sourceLangCode, targetLangCode, entryCount }) => [sourceLangCode, targetLangCode, entryCount]),
  (await client.translateText("A cat.", "en", "fr", { glossary: many })).text,
];
await client.deleteMultilingualGlossary(many);

const [source, target] = ["source.txt", "target.txt"].map((name) => join(WORK, name));
await writeFile(source, "I see a cat.\n");
await client.translateDocument(source, target, "en", "fr");
seen.document = await readFile(target, "utf8");

seen.refused = await client.translateText("Yes.", "en", "xx").catch((error) => error.message);
console.log(JSON.stringify(seen));
