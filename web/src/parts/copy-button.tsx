// A button that copies a text and says so.

import { copyText } from "../lib/copy";
import { Icon } from "./icon";
import { notify } from "./notice";

export function CopyButton({ text, label }: { text: string; label: string }) {
  const copy = async () => {
    const copied = await copyText(text);
    notify(
      copied ? "Copied" : "The browser does not let this page copy: select it by hand",
      !copied,
    );
  };
  return (
    <button type="button" class="button small" onClick={() => void copy()}>
      <Icon name="copy" /> {label}
    </button>
  );
}
