// Writes FILE.br and FILE.gz beside each asset of a build, for the engine to send as they are.
//   node compress.ts FOLDER
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";

const [folder = "."] = process.argv.slice(2);
for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
  // index.html is not among them: each answer has a nonce of its own in it.
  if (!/\.(js|css|svg)$/.test(name)) continue;
  const path = join(folder, name);
  const content = readFileSync(path);
  writeFileSync(`${path}.br`, brotliCompressSync(content));
  writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
}
