// Serves the built page with a made-up living state: `npm run dev -- --port 8700 --calm`.

import { parseArgs } from "node:util";
import { numberNow, Standin } from "./standin";

const { values } = parseArgs({
  options: {
    port: { type: "string", default: "8700" },
    password: { type: "string" },
    hostile: { type: "boolean", default: false },
    empty: { type: "boolean", default: false },
    calm: { type: "boolean", default: false },
    "slow-ms": { type: "string", default: "0" },
  },
});

const standin = await Standin.start({
  port: Number(values.port),
  password: values.password ?? null,
  hostile: values.hostile,
  empty: values.empty,
  calm: values.calm,
  slow_ms: Number(values["slow-ms"]),
});
console.log(`${standin.url} (Ctrl-C ends it)`);

let number = numberNow();
const timer = setInterval(() => {
  number += 1;
  standin.pushTail(number);
}, 300);
process.once("SIGINT", () => {
  clearInterval(timer);
  void standin.stop();
});
