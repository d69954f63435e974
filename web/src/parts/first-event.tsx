// Shown wherever there is nothing yet: how to send a first event to this very server.

import type { Doors } from "../lib/contract";
import { firstEvent } from "../lib/first";
import { usePoll } from "../lib/poll";
import { CopyButton } from "./copy-button";

/** Listeners change with a reload alone. */
const EVERY_MS = 30_000;

export function FirstEvent() {
  const { value } = usePoll<Doors>("api/v1/doors", () => EVERY_MS);
  if (value === null) {
    return null;
  }
  const { command, listens, local } = firstEvent(value.doors, location.hostname);
  return (
    <div class="first">
      {command !== null && (
        <>
          <p>
            Send a first event{local ? " from this machine" : " from any machine with util-linux"}:
          </p>
          <p class="command">
            <code>{command}</code>
            <CopyButton text={command} label="Copy" />
          </p>
        </>
      )}
      <p class="faint">
        {listens.length === 0
          ? "This server listens on no address; its sources read files or ask for events."
          : `This server listens on ${listens.join(", ")}. Point rsyslog, syslog-ng, Fluent Bit or a
        firewall at it; most devices send to port 514 unless told otherwise.`}
      </p>
    </div>
  );
}
