// Puts a text on the clipboard. Browsers give it to pages of loopback and HTTPS; elsewhere the old
// way is tried.

/** Says whether it went well. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

function copyBySelection(text: string): boolean {
  const box = document.createElement("textarea");
  box.value = text;
  box.className = "off-screen";
  const home = document.querySelector("dialog[open]") ?? document.body;
  home.append(box);
  const before = document.activeElement;
  box.select();
  let copied = false;
  try {
    copied = document.execCommand("copy");
  } finally {
    box.remove();
    if (before instanceof HTMLElement) {
      before.focus();
    }
  }
  return copied;
}
