import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { compression } from "vite-plugin-compression2";
import { defineConfig } from "vitest/config";

/** Preload the file that draws, which is read after the one that asks, and the typeface. */
const preloads: Plugin = {
  name: "preloads",
  transformIndexHtml: {
    order: "post",
    handler: (_page, { bundle }) =>
      Object.values(bundle ?? {}).flatMap((file) => {
        const isFrame = file.type === "chunk" && file.name === "frame";
        if (!isFrame && !/inter-.*\.woff2$/.test(file.fileName)) return [];
        const type = isFrame ? { as: "script" } : { as: "font", type: "font/woff2" };
        return [
          { tag: "link", attrs: { rel: "preload", ...type, crossorigin: true, href: `/static/app/${file.fileName}` }, injectTo: "head" },
        ];
      }),
  },
};

// Django serves what is built under /static/app/; every address of the dashboard is one page.
export default defineConfig(({ command }) => ({
  base: command === "build" ? "/static/app/" : "/",
  // WhiteNoise sends the packed file that lies beside one, to whoever takes it.
  plugins: [react(), preloads, compression({ algorithms: ["gzip"], include: /\.(js|css|svg)$/, threshold: 1_000 })],
  build: {
    outDir: "dist",
    manifest: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    // One style sheet of all pages instead of one per chunk: a run's page needs fewer requests.
    cssCodeSplit: false,
    // Few files: a page that waits for forty small ones waits longer. `asking` starts the page's requests while the
    // others load. `home` contains all that the first page needs beyond the frame. `overlays` contains menus, hints
    // and dialogs, which the first use of one loads. `small` contains what several pages of trajectories and metrics share.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: "asking", test: /src\/(shell\/early|main)\.ts$|rolldown.runtime/, priority: 6 },
            { name: "frame", test: /src\/(app|pages\/runs\/RunsPage|runs\/RunList)\.tsx$/, priority: 5 },
            {
              name: "overlays",
              test: /@floating-ui|react-remove-scroll|@mantine\/core\/esm\/components\/(Combobox|Drawer|Menu|Modal|ModalBase|Popover|ScrollArea|Select|Tooltip)\/|src\/components\/(Dialog|HintBox|OpenedMenu|ReasonDialog)/,
              priority: 4,
            },
            // One file of all tabs of a run: with a file for each group of tabs, a tab made 16 or 17 requests. What opens
            // later is loaded then; the reader of steps, whose page makes few requests, is a file of its own.
            {
              name: "run",
              test: /src\/pages\/(run\/(?!RunDialogs|fleet\/RecordingViewer|queue\/(BatchDrawer|LimitsDialog)|.*\/(LessonDrawer|MarksDrawer|PointDrawer))|viewer\/(?!Step|steps))/,
              priority: 3,
            },
            { name: "steps", test: /src\/pages\/viewer\/(Step|steps)/, priority: 2.5 },
            {
              name: "shared",
              test: /^(?!.*(node_modules\/yaml\/|src\/forms\/(yaml|ConfigPanel)))/,
              minShareCount: 2,
              maxModuleSize: 60_000,
              priority: 2,
            },
            { name: "yaml", test: /src\/forms\/(yaml|ConfigPanel)/, priority: 1 },
          ],
        },
      },
    },
  },
  server: {
    // Tests read the description of the API beside this folder.
    fs: { allow: [".."] },
    proxy: Object.fromEntries(
      ["/api", "/admin", "/docs", "/guide", "/openapi.json", "/static", "/ws"].map((path) => [
        path,
        { target: "http://127.0.0.1:8000", ws: path === "/ws" },
      ]),
    ),
  },
  resolve: { alias: { "@": new URL("./src", import.meta.url).pathname } },
  // Logic runs without a DOM, which is faster; components run in jsdom.
  test: {
    silent: "passed-only",
    maxWorkers: "100%",
    projects: [
      { extends: true, test: { name: "logic", environment: "node", isolate: false, include: ["src/**/*.test.ts"] } },
      {
        extends: true,
        test: {
          name: "components",
          environment: "jsdom",
          include: ["src/**/*.test.tsx"],
          setupFiles: ["src/testing/setup.ts"],
          testTimeout: 60_000,
        },
      },
    ],
  },
}));
