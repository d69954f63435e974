// A first event for this very server: its addresses, and the command that sends one.

import type { Door } from "./contract";

export interface FirstEventHint {
  /** Null without a listener that `logger` can send to. */
  command: string | null;
  /** Addresses, such as `udp port 5514`. */
  listens: string[];
  /** True if only this machine reaches the address of the command. */
  local: boolean;
}

interface Listener {
  protocol: string;
  host: string;
  port: string;
}

/** Parts of `udp://0.0.0.0:5514` or `tcp://[::]:5514`. */
function parsed(listener: string): Listener | null {
  const parts = /^([a-z]+):\/\/(.*):(\d+)$/.exec(listener);
  if (!parts) {
    return null;
  }
  const [, protocol = "", host = "", port = ""] = parts;
  return { protocol, host: host.replace(/^\[|\]$/g, ""), port };
}

const isLoopback = (host: string) => /^(localhost|127\..*|::1)$/.test(host);
const isAny = (host: string) => host === "0.0.0.0" || host === "::";

/** `page` is the host under which the page was opened: senders reach it there, too. */
export function firstEvent(sources: readonly Door[], page: string): FirstEventHint {
  const all = sources.flatMap((one) => one.listeners.map(parsed));
  const listeners = all.filter((one) => one !== null);
  const names = listeners.map(({ protocol, host, port }) =>
    isAny(host) ? `${protocol} port ${port}` : `${protocol} ${host} port ${port}`,
  );
  const to =
    listeners.find((one) => one.protocol === "tcp") ??
    listeners.find((one) => one.protocol === "udp");
  const listens = [...new Set(names)];
  if (!to) {
    return { command: null, listens, local: false };
  }
  const opened = page.replace(/^\[|\]$/g, "") || "127.0.0.1";
  const host = isAny(to.host) ? opened : to.host;
  const flag = to.protocol === "tcp" ? "--tcp" : "--udp";
  const command = `logger --server ${host} --port ${to.port} ${flag} "hello, inrush"`;
  return { command, listens, local: isLoopback(host) };
}
