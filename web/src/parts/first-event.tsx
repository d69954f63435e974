// Shown wherever there is nothing yet: how to send a first event.

import { CopyButton } from "./copy-button";

export function FirstEvent() {
  const host = location.hostname || "127.0.0.1";
  const command = `logger --server ${host.replace(/^\[|\]$/g, "")} --port 5514 --tcp "hello, inrush"`;
  return (
    <div class="first">
      <p>Send a first event from any machine with util-linux:</p>
      <p class="command">
        <code>{command}</code>
        <CopyButton text={command} label="Copy" />
      </p>
      <p class="faint">
        5514 is the default port of syslog, for UDP and TCP. Point rsyslog, syslog-ng, Fluent Bit or
        a firewall at the same address.
      </p>
    </div>
  );
}
