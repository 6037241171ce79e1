/** Focus fields of the launch form by their path. */

/** Focus the field of a path, or its nearest ancestor; return whether there is one. */
export function focusField(path: string): boolean {
  const fields = [...document.querySelectorAll<HTMLElement>("[data-field]")];
  const depth = ({ dataset: { field = "" } }: HTMLElement) => (path === field || /^[.[]/.test(path.slice(field.length)) ? field.length : 0);
  const [found] = fields
    .filter((each) => path.startsWith(each.dataset.field ?? "\n") && depth(each) > 0)
    .sort((a, b) => depth(b) - depth(a));
  return focusInside(found);
}

/** Focus an element, or the first control inside it. */
export function focusInside(element: HTMLElement | undefined): boolean {
  if (!element) return false;
  element.scrollIntoView({ block: "center" });
  const controls = "input:not([type=hidden]), textarea, select, button, [tabindex]";
  const target = element.matches(controls) ? element : element.querySelector<HTMLElement>(controls);
  target?.focus({ preventScroll: true });
  return true;
}

/** Focus the first invalid field. */
export function focusFirstError(): void {
  focusInside(document.querySelector<HTMLElement>("[aria-invalid=true]") ?? undefined);
}
