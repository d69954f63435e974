// Text from an event: always a text node, what hides is shown, what was looked for is marked.

import { visible } from "../lib/format";
import { pieces } from "../lib/query";

interface Props {
  text: string;
  wanted?: readonly string[];
  /** Line feeds and tabs stay. */
  lines?: boolean;
}

const NOTHING: readonly string[] = [];

export function EventText({ text, wanted = NOTHING, lines = false }: Props) {
  const shown = visible(text, lines);
  if (wanted.length === 0) {
    return <bdi>{shown}</bdi>;
  }
  const cut = pieces(shown, wanted);
  return <bdi>{cut.map((piece) => (piece.hit ? <mark>{piece.text}</mark> : piece.text))}</bdi>;
}
