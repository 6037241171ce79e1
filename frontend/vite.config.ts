import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// Django serves what is built under /static/app/; every address of the dashboard is one page.
export default defineConfig(({ command }) => ({
  base: command === "build" ? "/static/app/" : "/",
  plugins: [react()],
  build: { outDir: "dist", manifest: true, target: "es2022", modulePreload: { polyfill: false } },
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
