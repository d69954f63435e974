// Builds what is named on the command line:
//   app    the dashboard into dist/: index.html and one script and one style sheet with a hash in
//          their names, so that a browser may keep them for ever; each also gzipped, as NAME.gz,
//          for the binary that embeds both
//   tests  the stand-in server and the tests into .build/, as modules for node
// The same sources give the same bytes: the hash is over the content.
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import * as esbuild from "esbuild";

process.chdir(fileURLToPath(new URL(".", import.meta.url)));

/** Bytes of all assets together, gzipped; a build that is larger fails. The product allows 300 KB. */
const BUDGET_BYTES = 120_000;

/** light-dark() decides: the browsers of 2024. */
const BROWSERS = ["chrome123", "firefox128", "safari17.5"];

async function app() {
  await emptied("dist");
  const built = await esbuild.build({
    entryPoints: { app: "src/main.tsx" },
    outdir: "dist",
    entryNames: "[name]-[hash]",
    bundle: true,
    minify: true,
    format: "iife",
    target: BROWSERS,
    jsx: "automatic",
    jsxImportSource: "preact",
    define: { "process.env.NODE_ENV": '"production"' },
    legalComments: "none",
    metafile: true,
    logLevel: "warning",
  });
  const names = Object.keys(built.metafile.outputs).map((path) => basename(path));
  const named = (extension) => names.find((name) => name.endsWith(extension));
  const page = (await readFile("src/index.html", "utf8"))
    .replace("app.js", named(".js"))
    .replace("app.css", named(".css"));
  await writeFile("dist/index.html", page);
  await weigh();
}

/** Removes what is in a folder, but for `.gitignore`, which keeps the folder in the repository. */
async function emptied(folder) {
  await mkdir(folder, { recursive: true });
  for (const name of await readdir(folder)) {
    if (name !== ".gitignore") {
      await rm(`${folder}/${name}`, { recursive: true });
    }
  }
}

async function weigh() {
  let total = 0;
  for (const name of (await readdir("dist")).filter((one) => one !== ".gitignore").sort()) {
    const bytes = await readFile(`dist/${name}`);
    const gzipped = gzipSync(bytes, { level: 9 });
    await writeFile(`dist/${name}.gz`, gzipped);
    total += gzipped.length;
    const size = String(bytes.length).padStart(8);
    console.log(`${name.padEnd(24)} ${size} B  gzipped ${gzipped.length} B`);
  }
  console.log(`all together, gzipped: ${total} B of ${BUDGET_BYTES} B`);
  if (total > BUDGET_BYTES) {
    throw new Error("the dashboard is over its budget");
  }
}

async function tests() {
  await rm(".build", { recursive: true, force: true });
  await mkdir(".build");
  const unit = await testsIn("test/unit");
  const browser = await testsIn("test/browser");
  const real = await testsIn("test/real");
  await esbuild.build({
    entryPoints: {
      "dev/main": "dev/main.ts",
      "dev/cost": "dev/cost.ts",
      "dev/shots": "dev/shots.ts",
      ...unit,
      ...browser,
      ...real,
    },
    outdir: ".build",
    outExtension: { ".js": ".mjs" },
    bundle: true,
    packages: "external",
    format: "esm",
    platform: "node",
    target: "node20",
    sourcemap: "inline",
    logLevel: "warning",
  });
}

async function testsIn(folder) {
  const files = (await readdir(folder)).filter((name) => name.endsWith(".test.ts"));
  const kind = basename(folder);
  return Object.fromEntries(
    files.map((name) => [`${kind}/${name.replace(/\.ts$/, "")}`, `${folder}/${name}`]),
  );
}

const parts = { app, tests };
const asked = process.argv.slice(2);
if (asked.length === 0 || asked.some((name) => !(name in parts))) {
  console.error("usage: node build.mjs [app] [tests]");
  process.exit(2);
}
for (const name of asked) {
  await parts[name]();
}
