/** The look of the component kit: one type scale, few colours, calm shapes. */
import {
  type CSSVariablesResolver,
  createTheme,
  localStorageColorSchemeManager,
  type MantineColorsTuple,
} from "@mantine/core";

const weir: MantineColorsTuple = [
  "#e6f5f7",
  "#cbe9ee",
  "#9fd8e2",
  "#6dc4d2",
  "#42aec0",
  "#2299ae",
  "#0f8299",
  "#0b7285",
  "#095c6c",
  "#064552",
];

/** The kit's greys of the dark scheme, in the cool tone of our surfaces. */
const dark: MantineColorsTuple = [
  "#e4ebf0",
  "#c3cfd8",
  "#9bacb9",
  "#71838f",
  "#3b4a57",
  "#31404c",
  "#1a252e",
  "#151e26",
  "#101920",
  "#0e151b",
];

export const theme = createTheme({
  primaryColor: "weir",
  primaryShade: 7,
  colors: { weir, dark },
  defaultRadius: 8,
  cursorType: "pointer",
  fontFamily: 'Inter, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif',
  fontFamilyMonospace: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace',
  fontSizes: { xs: "0.75rem", sm: "0.8125rem", md: "0.875rem", lg: "1rem", xl: "1.125rem" },
  headings: {
    fontWeight: "620",
    sizes: { h1: { fontSize: "1.375rem" }, h2: { fontSize: "1rem" }, h3: { fontSize: "0.875rem" } },
  },
  components: {
    Tooltip: { defaultProps: { withArrow: true, openDelay: 250, multiline: true, maw: 360 } },
    Modal: {
      defaultProps: {
        centered: true,
        styles: { title: { fontWeight: 620 } },
        overlayProps: { backgroundOpacity: 0.45, blur: 2 },
      },
    },
    Notification: { defaultProps: { styles: { description: { color: "var(--ink-soft)" } } } },
    Select: { defaultProps: { allowDeselect: false } },
  },
});

/** The kit's own surfaces and inks follow ours. */
export const variables: CSSVariablesResolver = () => {
  const shared = {
    "--mantine-color-body": "var(--surface)",
    "--mantine-color-text": "var(--ink)",
    "--mantine-color-dimmed": "var(--ink-soft)",
    "--mantine-color-default-border": "var(--line-strong)",
    "--mantine-color-default": "var(--surface)",
    "--mantine-color-default-hover": "var(--surface-hover)",
    "--mantine-color-error": "var(--bad)",
    "--mantine-color-placeholder": "var(--ink-soft)",
  };
  return { variables: {}, light: shared, dark: shared };
};

/** The same key that `public/color-scheme.js` reads before the first paint. */
export const colorSchemeManager = localStorageColorSchemeManager({ key: "weir-color-scheme" });
