import "@mantine/core/styles.css";
import "@/theme/index.css";
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiProblem } from "@/api/problems";
import { applyPreferences } from "@/preferences";
import { router } from "@/router";
import { theme } from "@/theme/theme";

applyPreferences();
const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // A refusal stays a refusal; only a server that is away is asked again.
      retry: (failures, error) => failures < 3 && !(error instanceof ApiProblem && error.status >= 400 && error.status < 500),
    },
  },
});

createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <MantineProvider theme={theme} defaultColorScheme="auto">
        <RouterProvider router={router} />
      </MantineProvider>
    </QueryClientProvider>
  </StrictMode>,
);
