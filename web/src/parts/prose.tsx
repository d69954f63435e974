// A sentence for the operator; what stands between backticks is a command.

import { visible } from "../lib/format";

export function Prose({ text }: { text: string }) {
  const parts = visible(text, true).split("`");
  // Without a closing one the last backtick is just that.
  const closed = parts.length % 2 === 1;
  return (
    <bdi>
      {parts.map((part, i) => {
        const plain = i % 2 === 0 || (!closed && i === parts.length - 1);
        return plain ? part : <code key={i}>{part}</code>;
      })}
    </bdi>
  );
}
