// What Inrush makes of one record: the answer of `inrush explain`.

import { useEffect, useState } from "preact/hooks";
import { isAbort, post, words } from "../lib/api";
import { visible } from "../lib/format";
import { CopyButton } from "./copy-button";
import { Dialog } from "./dialog";
import { EventText } from "./event-text";

type Answer = Record<string, unknown>;

/** Shown below, or said by others already. */
const ELSEWHERE = ["raw", "hec", "envelope", "fields", "spans"];

/** Shown first, in this order: they answer "what is it taken for, and why". */
const FIRST = ["class", "why", "rule", "format", "index", "sourcetype", "host", "event_time"];

export function Explain({ raw, onClose }: { raw: string; onClose: () => void }) {
  const [answers, setAnswers] = useState<Answer[] | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let gone = false;
    post("api/v1/explain", raw)
      .then((text) => !gone && setAnswers(read(text)))
      .catch((error) => !gone && !isAbort(error) && setProblem(words(error)));
    return () => {
      gone = true;
    };
  }, [raw]);
  return (
    <Dialog title="Explain" wide onClose={onClose}>
      <h3>As it came</h3>
      <pre class="raw">
        <EventText text={raw} lines />
      </pre>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {!problem && answers === null && <p class="faint">Asking…</p>}
      {answers?.map((answer, i) => (
        <Explained key={i} answer={answer} />
      ))}
    </Dialog>
  );
}

/** One JSON object, or one a line. */
function read(text: string): Answer[] {
  const whole = parse(text);
  if (whole !== undefined) {
    return (Array.isArray(whole) ? whole : [whole]) as Answer[];
  }
  const lines = text.split("\n").map(parse);
  return lines.filter((one): one is Answer => typeof one === "object" && one !== null);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function Explained({ answer }: { answer: Answer }) {
  const names = [...FIRST, ...Object.keys(answer).filter((name) => !FIRST.includes(name))];
  const shown = names.filter((name) => isWorth(answer[name]) && !ELSEWHERE.includes(name));
  return (
    <section class="explained">
      <h3>What it is taken for</h3>
      <dl class="pairs">
        {shown.map((name) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <EventText text={inWords(answer[name])} lines />
            </dd>
          </div>
        ))}
      </dl>
      {isWorth(answer.hec) && (
        <>
          <h3>What would be sent over HEC</h3>
          <pre class="raw">{visible(JSON.stringify(answer.hec, null, 2), true)}</pre>
        </>
      )}
      <CopyButton text={JSON.stringify(answer, null, 2)} label="Copy as JSON" />
    </section>
  );
}

function isWorth(value: unknown): boolean {
  return (
    value !== undefined && value !== null && value !== "" && value !== false && !isEmptyList(value)
  );
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

function inWords(value: unknown): string {
  if (Array.isArray(value)) {
    return value.map(inWords).join("\n");
  }
  if (typeof value === "object" && value !== null) {
    const { name, meaning, rule, reason } = value as Record<string, unknown>;
    if (typeof rule === "string") {
      return `${rule}: ${typeof reason === "string" ? reason : "taken"}`;
    }
    return typeof name === "string" && typeof meaning === "string"
      ? `${name}: ${meaning}`
      : JSON.stringify(value);
  }
  return String(value);
}
