/** What this tab remembers of the server's answers. */

import { QueryClient } from "@tanstack/react-query";
import { ApiProblem } from "@/api/problems";

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // A refusal stays a refusal; only a server that is away is asked again.
      retry: (failures, error) => failures < 3 && !(error instanceof ApiProblem && error.status >= 400 && error.status < 500),
    },
  },
});
