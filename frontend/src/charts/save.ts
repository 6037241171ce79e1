/** Downloads and clipboard access. */

export function save(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** A file name derived from a title. */
export function fileName(name: string, ending: string): string {
  return `${name.replace(/[^\w.-]+/g, "-")}.${ending}`;
}

/** Copy text to the clipboard, also where the Clipboard API is unavailable. */
export function copyText(text: string): void {
  const put = (event: ClipboardEvent) => {
    event.clipboardData?.setData("text/plain", text);
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  // Works over plain `http://`, where `navigator.clipboard` is undefined.
  document.addEventListener("copy", put, { capture: true, once: true });
  document.execCommand("copy");
  document.removeEventListener("copy", put, { capture: true });
}
