// The keyboard, and the query language on one page.

import { PAGE_KEYS } from "../lib/keys";
import { PAGES } from "../lib/url";
import { Dialog } from "./dialog";

const KEYS: [string, string][] = [
  ["/", "write a query"],
  ["j, k", "next, previous event; Enter opens it"],
  ["t", "system, light or dark colours"],
  ["?", "this help"],
  ["Esc", "close what is open"],
];

const LANGUAGE: [string, string][] = [
  ["denied", "events whose text contains it, in upper or lower case"],
  ['"access denied"', "a phrase"],
  ["den*d", "* stands for any text"],
  ["host=fw*", "a field's whole value; * and ? are wildcards"],
  ["severity<=warning", "also < > >= != ; names for severity and facility"],
  ["user=*", "the field is there"],
  ["host=(fw-1 OR fw-2)", "one of several values"],
  ["-keepalive, NOT user=root", "without it"],
  ["a OR b, (a OR b) c", "keywords in upper case; terms beside each other must all fit"],
  ["… | count by host, 5m", "a table; also sum avg min max p50 p99 (field)"],
  ["… | top 10 host", "the most frequent values"],
  ["… | sort -count | head 20", "order and cut a table"],
];

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Help" wide onClose={onClose}>
      <h3>Keyboard</h3>
      <dl class="pairs keys">
        {PAGES.map((page) => (
          <div key={page}>
            <dt>
              <kbd>g</kbd> <kbd>{PAGE_KEYS[page]}</kbd>
            </dt>
            <dd>go to {page}</dd>
          </div>
        ))}
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <h3>Query</h3>
      <dl class="pairs">
        {LANGUAGE.map(([query, what]) => (
          <div key={query}>
            <dt>
              <code>{query}</code>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
