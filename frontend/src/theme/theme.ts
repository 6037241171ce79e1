/** The theme: type, spacing and colours; components use roles, never raw colours. */

import { createTheme, defaultVariantColorsResolver, type MantineColorsTuple, type VariantColorsResolver } from "@mantine/core";

const brand: MantineColorsTuple = [
  "#eef1ff",
  "#dbe1ff",
  "#b5c1ff",
  "#8c9eff",
  "#6b81fb",
  "#5570f5",
  "#465fe6",
  "#3b50c9",
  "#3345a6",
  "#2b3a85",
];

/** Bluish greys, with dark ends for dark rooms. */
const dark: MantineColorsTuple = [
  "#e3e6ec",
  "#b4bac6",
  "#8d95a5",
  "#646d7f",
  "#3a4252",
  "#2a313f",
  "#1b212c",
  "#141922",
  "#0e1219",
  "#0a0d12",
];

/** A role of `roles.css` as a colour of Mantine: text, chips and buttons take `c="held"` or `color="bad"`. */
const role = (name: string) => Array(10).fill(`var(--${name})`) as unknown as MantineColorsTuple;
const TONES = ["good", "busy", "held", "bad", "quiet"];
/** Chips have soft grounds of their own, which reach the contrast of text in both themes. */
const variantColorResolver: VariantColorsResolver = (input) => {
  const { color = "", variant } = input;
  if (variant !== "light" || !TONES.includes(color)) return defaultVariantColorsResolver(input);
  return { background: `var(--${color}-soft)`, hover: `var(--${color}-soft)`, color: `var(--${color})`, border: "0" };
};
const bold = "var(--mantine-font-weight-bold)";
const dialog = {
  title: { fontSize: "var(--mantine-font-size-lg)", fontWeight: bold, lineHeight: 1.35, overflowWrap: "anywhere" },
} as const;

// Descriptions below the input, so that inputs of a row align.
const below = { inputWrapperOrder: ["label", "input", "error", "description"] };

export const theme = createTheme({
  primaryColor: "brand",
  primaryShade: { light: 6, dark: 6 },
  colors: { brand, dark, soft: role("ink-soft"), ...Object.fromEntries(TONES.map((tone) => [tone, role(tone)])) },
  variantColorResolver,
  // The rail and wide columns go below 641 px.
  breakpoints: { xs: "30em", sm: "40.0625em", md: "62.5em", lg: "73.8em", xl: "90em" },
  fontFamily: "Inter, 'Inter as Arial', 'Inter as DejaVu', system-ui, sans-serif",
  fontFamilyMonospace: "ui-monospace, SFMono-Regular, 'Cascadia Code', Menlo, 'DejaVu Sans Mono', monospace",
  // 12, 13, 14, 16 and 22 px; 400, 500 and 600; 4, 8 and 999 px. Style sheets use only these tokens.
  fontSizes: { xs: "0.75rem", sm: "0.8125rem", md: "0.875rem", lg: "1rem", xl: "1.375rem" },
  fontWeights: { regular: "400", medium: "500", bold: "600" },
  lineHeights: { xs: "1.35", sm: "1.45", md: "1.5", lg: "1.5", xl: "1.3" },
  spacing: { xs: "0.5rem", sm: "0.75rem", md: "1rem", lg: "1.5rem", xl: "2.25rem" },
  defaultRadius: "md",
  radius: { xs: "4px", sm: "4px", md: "8px", lg: "8px", xl: "999px" },
  headings: {
    fontWeight: "var(--mantine-font-weight-bold)",
    sizes: {
      h1: { fontSize: "1.375rem", lineHeight: "1.25" },
      h2: { fontSize: "0.875rem", lineHeight: "1.35" },
      h3: { fontSize: "0.8125rem", lineHeight: "1.35" },
    },
  },
  focusRing: "auto",
  cursorType: "pointer",
  respectReducedMotion: true,
  components: {
    ...Object.fromEntries(
      ["InputWrapper", "TextInput", "PasswordInput", "Select", "Textarea"].map((name) => [name, { defaultProps: below }]),
    ),
    // Focus the first entry: a placeholder element before it would take the focus.
    Menu: { defaultProps: { withInitialFocusPlaceholder: false } },
    Tooltip: { defaultProps: { openDelay: 200, multiline: true, maw: 340, withArrow: true } },
    Button: { defaultProps: { size: "sm" } },
    Modal: { defaultProps: { centered: true, overlayProps: { backgroundOpacity: 0.5 } }, styles: dialog },
    Drawer: { styles: dialog },
    Paper: { defaultProps: { withBorder: true }, styles: { root: { "--paper-border-color": "var(--line)", minWidth: 0 } } },
    Badge: {
      defaultProps: { component: "span", variant: "light", color: "quiet", size: "sm", radius: "sm", tt: "none", fw: 400 },
      styles: {
        root: {
          fontSize: "var(--mantine-font-size-xs)",
          letterSpacing: 0,
          height: "auto",
          marginInlineEnd: "0.25rem",
          minHeight: "var(--badge-height)",
          overflow: "visible",
        },
        label: { overflow: "visible", whiteSpace: "normal", overflowWrap: "break-word" },
      },
    },
  },
});
