/** Colours and type of the theme for drawing on a canvas. */

/** The value of a CSS custom property. */
export const paint = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const PIXELS = { xs: 12, md: 14 };

/** A font of the theme; a canvas takes neither `rem` nor variables. */
export const canvasFont = (size: keyof typeof PIXELS, weight: "regular" | "bold" = "regular"): string =>
  `${paint(`--mantine-font-weight-${weight}`)} ${PIXELS[size]}px ${paint("--mantine-font-family")}`;
