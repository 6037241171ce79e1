/** Colours of the theme for drawing on a canvas. */

/** The value of a CSS custom property. */
export const paint = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
