// Accessibility fixes for unfold 0.91: clickable elements become buttons, icons are hidden from screen
// readers, and the content is a landmark.
(() => {
  // Clickable elements that are neither links nor buttons.
  const CLICKED = ["a:not([href])", "span", "div.cursor-pointer", "h2.cursor-pointer", "div.mx-3"]
    .map((kind) => `${kind}[x-on\\:click]`)
    .join(", ");
  // Labels of icons without text, by their ligature.
  const NAMES = {
    close: "Close",
    computer: "Theme",
    dark_mode: "Theme",
    deployed_code: "First page",
    light_mode: "Theme",
    more_vert: "More",
    search: "Search",
  };

  function saysNothingElse(owner) {
    const rest = owner.cloneNode(true);
    for (const icon of rest.querySelectorAll(".material-symbols-outlined")) icon.remove();
    return rest.textContent.trim() === "";
  }

  function mend() {
    for (const clicked of document.querySelectorAll(CLICKED)) {
      clicked.setAttribute("role", "button");
      clicked.tabIndex = 0;
    }
    for (const icon of document.querySelectorAll(".material-symbols-outlined")) {
      const owner = icon.closest("a, button, [role=button]");
      const drawn = icon.textContent.trim();
      if (owner !== icon) icon.setAttribute("aria-hidden", "true");
      if (owner && (owner === icon || saysNothingElse(owner)) && !owner.hasAttribute("aria-label")) {
        owner.setAttribute("aria-label", owner.title.trim() || NAMES[drawn] || drawn.replaceAll("_", " "));
      }
    }
    document.getElementById("content")?.setAttribute("role", "main");
  }

  // Elements that the admin's own scripts create on load.
  function mendMade() {
    for (const hint of document.querySelectorAll(".help-tooltip[aria-label]")) hint.setAttribute("role", "img");
    for (const made of document.querySelectorAll(".select2-container")) {
      const label = document.querySelector(`label[for="${made.previousElementSibling?.id}"]`);
      for (const box of made.querySelectorAll("[role=combobox], [role=textbox]")) {
        box.removeAttribute("aria-labelledby");
        box.setAttribute("aria-label", label?.textContent.trim() || "Choose");
      }
    }
  }

  document.addEventListener("DOMContentLoaded", mend);
  document.addEventListener("htmx:afterSettle", mend);
  window.addEventListener("load", () => setTimeout(mendMade));
  document.addEventListener("keydown", (event) => {
    if (event.target.getAttribute?.("role") !== "button" || event.target.tagName === "BUTTON") return;
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.target.click();
  });
})();
