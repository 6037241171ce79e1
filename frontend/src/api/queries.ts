/** This tab's cache of server responses. */

import { QueryClient } from "@tanstack/react-query";
import { ApiProblem } from "@/api/problems";

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // Refusals are final; only an unreachable server is retried.
      retry: (failures, error) => failures < 3 && !(error instanceof ApiProblem && error.status >= 400 && error.status < 500),
    },
  },
});
