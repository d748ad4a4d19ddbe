// Gives the player its English words where there is no page: node --import ./tests/player/english.js

import { execFileSync } from "node:child_process";

const READ = `
import json, sys, tomllib
words, names = (tomllib.load(open(path, "rb")) for path in sys.argv[1:])
print(json.dumps({"language": "en", "words": {**words, "names": names}}))`;
const files = ["../../dashboards/words/player.toml", "../../zerosim/base/terms.toml"];
const paths = files.map((file) => new URL(file, import.meta.url).pathname);
const python = process.env.PYTHON ?? "python3";
/** @type {any} */ (globalThis).zerosimWords = JSON.parse(execFileSync(python, ["-c", READ, ...paths], { encoding: "utf8" }));
