import react from "@vitejs/plugin-react";
import { compression } from "vite-plugin-compression2";
import { defineConfig } from "vitest/config";

// Django serves what is built under /static/app/; every address of the dashboard is one page.
export default defineConfig(({ command }) => ({
  base: command === "build" ? "/static/app/" : "/",
  // WhiteNoise sends the packed file that lies beside one, to whoever takes it.
  plugins: [react(), compression({ algorithms: ["gzip"], include: /\.(js|css|svg)$/, threshold: 1_000 })],
  build: {
    outDir: "dist",
    manifest: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    // What many pages share travels in one file: a page that waits for forty small ones waits longer.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: "shared", minShareCount: 8, maxModuleSize: 40_000 }] } } },
  },
  server: {
    proxy: Object.fromEntries(
      ["/api", "/admin", "/docs", "/openapi.json", "/static", "/ws"].map((path) => [
        path,
        { target: "http://127.0.0.1:8000", ws: path === "/ws" },
      ]),
    ),
  },
  resolve: { alias: { "@": new URL("./src", import.meta.url).pathname } },
  test: { environment: "node", include: ["src/**/*.test.ts"] },
}));
