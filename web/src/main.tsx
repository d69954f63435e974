// The dashboard. The script stands in the head, so that the colours are right before the first
// paint; the page itself begins when there is a body.

import "uplot/dist/uPlot.min.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/flow.css";
import "./styles/search.css";
import "./styles/tables.css";
import { render } from "preact";
import { App } from "./app";
import { applyTheme } from "./lib/theme";

applyTheme();
document.addEventListener("DOMContentLoaded", () => {
  const home = document.getElementById("app");
  if (home) {
    render(<App />, home);
  }
});
