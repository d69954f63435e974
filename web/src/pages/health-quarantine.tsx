// Quarantine: events that a destination refused for good, to be sent again or taken out.

import { useState } from "preact/hooks";
import { post, words } from "../lib/api";
import type { QuarantineEntry, QuarantineList, ReplayReport } from "../lib/contract";
import { bytes, count, percent, plural } from "../lib/format";
import { usePoll } from "../lib/poll";
import { numberRanges } from "../lib/ranges";
import { Dialog } from "../parts/dialog";
import { EventText } from "../parts/event-text";
import { notify } from "../parts/notice";
import { When } from "../parts/when";

/** Entries that one look lists. */
const LISTED = 200;

interface Choice {
  destination: string;
  reason: string;
}

/** What a change means: conditions, or the numbers that were ticked. */
function chosen({ destination, reason }: Choice, ticked: ReadonlySet<number>): URLSearchParams {
  const params = new URLSearchParams();
  if (destination !== "") {
    params.set("destination", destination);
  }
  if (reason !== "") {
    params.set("reason", reason);
  }
  if (ticked.size > 0) {
    params.set("id", numberRanges(ticked));
  } else if (destination === "" && reason === "") {
    params.set("all", "true");
  }
  return params;
}

export function Quarantine() {
  const [choice, setChoice] = useState<Choice>({ destination: "", reason: "" });
  const [ticked, setTicked] = useState<ReadonlySet<number>>(new Set());
  const [asked, setAsked] = useState<"replay" | "drop" | null>(null);
  const query = chosen(choice, new Set());
  query.delete("all");
  query.set("limit", String(LISTED));
  const { value, problem, again } = usePoll<QuarantineList>(
    `api/v1/quarantine?${query}`,
    () => 10_000,
  );
  const entries = value?.entries ?? [];
  const tick = (id: number, on: boolean) => {
    const next = new Set(ticked);
    on ? next.add(id) : next.delete(id);
    setTicked(next);
  };
  const done = () => {
    setAsked(null);
    setTicked(new Set());
    again();
  };
  return (
    <section class="panel quarantine" aria-labelledby="quarantine-title">
      <h2 id="quarantine-title">
        Quarantine{" "}
        {value && (
          <small>
            {bytes(value.bytes)} of {bytes(value.bytes_max)} (
            {percent(value.bytes, value.bytes_max)})
          </small>
        )}
      </h2>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      <Tools
        list={value}
        choice={choice}
        ticked={ticked.size}
        onChoice={(next) => {
          setChoice(next);
          setTicked(new Set());
        }}
        onAsk={setAsked}
      />
      <Entries entries={entries} ticked={ticked} onTick={tick} />
      {value !== null && entries.length === 0 && (
        <p class="all-well">
          Nothing lies here. An event that a destination refuses for good comes here with the
          reason, and can be sent again.
        </p>
      )}
      {value?.more && (
        <p class="faint list-end">
          The oldest {count(entries.length)} are listed; replay and drop mean all that fit, listed
          or not.
        </p>
      )}
      {asked && (
        <Confirm
          what={asked}
          ticked={ticked.size}
          params={chosen(choice, ticked)}
          onDone={done}
          onClose={() => setAsked(null)}
        />
      )}
    </section>
  );
}

interface ToolsProps {
  list: QuarantineList | null;
  choice: Choice;
  ticked: number;
  onChoice: (choice: Choice) => void;
  onAsk: (what: "replay" | "drop") => void;
}

function Tools({ list, choice, ticked, onChoice, onAsk }: ToolsProps) {
  const entries = list?.entries ?? [];
  const destinations = named(
    entries.map((one) => one.destination),
    choice.destination,
  );
  const reasons = named(
    entries.map((one) => one.reason),
    choice.reason,
  );
  const what = ticked > 0 ? plural(ticked, "ticked", "ticked") : "all that fit";
  return (
    <div class="quarantine-tools">
      <Select
        label="Destination"
        all="every destination"
        value={choice.destination}
        names={destinations}
        onPick={(destination) => onChoice({ ...choice, destination })}
      />
      <Select
        label="Reason"
        all="every reason"
        value={choice.reason}
        names={reasons}
        onPick={(reason) => onChoice({ ...choice, reason })}
      />
      <button
        type="button"
        class="button primary"
        disabled={entries.length === 0}
        onClick={() => onAsk("replay")}
      >
        Replay {what}
      </button>
      <button
        type="button"
        class="button danger"
        disabled={entries.length === 0}
        onClick={() => onAsk("drop")}
      >
        Drop {what}
      </button>
    </div>
  );
}

function named(all: string[], also: string): string[] {
  return [...new Set(also === "" ? all : [...all, also])].sort();
}

interface SelectProps {
  label: string;
  all: string;
  value: string;
  names: string[];
  onPick: (name: string) => void;
}

function Select({ label, all, value, names, onPick }: SelectProps) {
  return (
    <select
      aria-label={label}
      value={value}
      onChange={(event) => onPick(event.currentTarget.value)}
    >
      <option value="">{all}</option>
      {names.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
}

interface EntriesProps {
  entries: QuarantineEntry[];
  ticked: ReadonlySet<number>;
  onTick: (id: number, on: boolean) => void;
}

function Entries({ entries, ticked, onTick }: EntriesProps) {
  return (
    <ul class="entries">
      {entries.map((one) => (
        <li key={one.id} class="entry">
          <input
            type="checkbox"
            aria-label={`Tick entry ${one.id}`}
            checked={ticked.has(one.id)}
            onChange={(event) => onTick(one.id, event.currentTarget.checked)}
          />
          <details>
            <summary>
              <span class="entry-to">
                <bdi>{one.destination}</bdi>
              </span>
              <span class="tag">{one.reason}</span>
              <span class="entry-when">
                <When ms={Date.parse(one.refused)} />
              </span>
              <span class="entry-text">
                <EventText text={one.text} />
              </span>
            </summary>
            <EntryDetail one={one} />
          </details>
        </li>
      ))}
    </ul>
  );
}

function EntryDetail({ one }: { one: QuarantineEntry }) {
  return (
    <div class="entry-detail">
      <p class="faint">
        number {one.id} · code {one.code} · sent {plural(one.attempts, "time")}
        {one.raw_base64 !== undefined && " · the record is not UTF-8"}
      </p>
      <pre class="raw">
        <EventText text={one.event.raw ?? JSON.stringify(one.event, null, 2)} lines />
      </pre>
    </div>
  );
}

interface ConfirmProps {
  what: "replay" | "drop";
  ticked: number;
  params: URLSearchParams;
  onDone: () => void;
  onClose: () => void;
}

/** Both change what is kept, so both are asked twice; what is dropped is gone. */
function Confirm({ what, ticked, params, onDone, onClose }: ConfirmProps) {
  const [busy, setBusy] = useState(false);
  const scope = ticked > 0 ? plural(ticked, "ticked event") : scopeWords(params);
  const act = async () => {
    setBusy(true);
    try {
      const text = await post(`api/v1/quarantine/${what}?${params}`);
      const [said, bad] =
        what === "replay" ? replayWords(JSON.parse(text)) : dropWords(JSON.parse(text));
      notify(said, bad);
      onDone();
    } catch (error) {
      setBusy(false);
      notify(words(error), true);
    }
  };
  return (
    <Dialog title={what === "replay" ? "Send again?" : "Drop for good?"} onClose={onClose}>
      <p>
        {what === "replay"
          ? `Sends ${scope} again, each to the destination that refused it. What is refused once more comes back here.`
          : `Deletes ${scope} from quarantine. This cannot be undone.`}
      </p>
      <p class="dialog-tools">
        <button type="button" class="button" onClick={onClose}>
          Keep
        </button>
        <button
          type="button"
          class={what === "replay" ? "button primary confirm" : "button danger confirm"}
          disabled={busy}
          onClick={() => void act()}
        >
          {what === "replay" ? "Replay" : "Drop"}
        </button>
      </p>
    </Dialog>
  );
}

function scopeWords(params: URLSearchParams): string {
  const destination = params.get("destination");
  const reason = params.get("reason");
  const to = destination ? ` refused by ${destination}` : "";
  const why = reason ? ` for ${reason}` : "";
  return to || why ? `every event${to}${why}` : "everything in quarantine";
}

function replayWords(report: ReplayReport): [string, boolean] {
  const parts = [`${plural(report.replayed, "event")} sent again`];
  if (report.left_behind > 0) {
    parts.push(`${count(report.left_behind)} went out but lie here still`);
  }
  if (report.not_configured > 0) {
    parts.push(`${count(report.not_configured)} stay: their destination is not configured`);
  }
  if (report.stopped) {
    parts.push(`stopped: ${report.stopped}`);
  }
  return [parts.join(" · "), parts.length > 1];
}

function dropWords(report: { dropped: number }): [string, boolean] {
  return [`${plural(report.dropped, "event")} dropped`, false];
}
