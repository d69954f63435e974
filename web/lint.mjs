// Runs Biome with the arguments given. Its packages for each platform are named here rather than
// its launcher, which names one for every platform there is: a registry mirror that lacks some of
// those makes `npm ci` fail.
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";

const name = `@biomejs/cli-${process.platform}-${process.arch}`;
let biome;
try {
  biome = createRequire(import.meta.url).resolve(`${name}/biome`);
} catch {
  console.error(`${name} is not installed: \`npm install --no-save ${name}\`, or check elsewhere`);
  process.exit(1);
}
process.exit(spawnSync(biome, process.argv.slice(2), { stdio: "inherit" }).status ?? 1);
