/** Give somebody a file or a text to take along. */

export function save(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** A name for a file of what is called so. */
export function fileName(name: string, ending: string): string {
  return `${name.replace(/[^\w.-]+/g, "-")}.${ending}`;
}

/** Put a text on the clipboard, also where the page has no right to it but its reader asked. */
export function copyText(text: string): void {
  const put = (event: ClipboardEvent) => {
    event.clipboardData?.setData("text/plain", text);
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  // Goes with `http://` on a network, where `navigator.clipboard` is not there.
  document.addEventListener("copy", put, { capture: true, once: true });
  document.execCommand("copy");
  document.removeEventListener("copy", put, { capture: true });
}
