import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

/** Where `npm run dev` finds the API: a running `weir dev`, or the pretend server of `npm run dev:mock`. */
const api = process.env.WEIR_API ?? "http://127.0.0.1:7070";

export default defineConfig({
  plugins: [react()],
  server: {
    host: "127.0.0.1",
    port: 5173,
    proxy: { "/v1": api, "/openapi.json": api },
  },
  build: {
    // Fonts and icons stay files: the content security policy allows no data: fonts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    // Whose work is in the bundle, and on which terms.
    license: { fileName: "licenses.md" },
  },
  test: {
    environment: "happy-dom",
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: ["test/setup.ts"],
    restoreMocks: true,
  },
});
