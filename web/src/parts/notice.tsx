// Short notices at the edge of the page: what was done, or why not. Read aloud politely.

import { useEffect, useState } from "preact/hooks";

export interface Notice {
  text: string;
  bad: boolean;
  number: number;
}

/** How long a notice stays. */
const STAYS_MS = 6_000;

let number = 0;
let show: (notice: Notice) => void = () => {};

export function notify(text: string, bad = false): void {
  number += 1;
  show({ text, bad, number });
}

export function Notices() {
  const [notice, setNotice] = useState<Notice | null>(null);
  useEffect(() => {
    show = setNotice;
  }, []);
  useEffect(() => {
    const timer = notice && setTimeout(() => setNotice(null), STAYS_MS);
    return () => clearTimeout(timer ?? undefined);
  }, [notice]);
  return (
    <div class="notices" role="status" aria-live="polite">
      {notice && (
        <p key={notice.number} class={notice.bad ? "notice bad" : "notice"}>
          {notice.text}
        </p>
      )}
    </div>
  );
}
