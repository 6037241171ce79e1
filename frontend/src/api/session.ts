/** Know who is signed in. */

import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, useContext } from "react";
import { api, body } from "@/api/client";
import type { Session } from "@/api/types";

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: () => body(api.GET("/api/session")),
  staleTime: 60_000,
});

export function useSession(): Session | undefined {
  return useQuery(sessionQuery).data;
}

/** Said beside whatever somebody may see and not do. */
export const TAKES_OPERATOR = "You may look; this takes an operator.";

export const TAKES_ADMIN = "You may look; this takes an administrator.";

/** Whether this person may change what concerns every run. */
export function useMayAdminister(): boolean {
  return useSession()?.role === "admin";
}

/** True around an archived run: the server refuses every change of it. */
export const ReadOnlyContext = createContext(false);

/** Whether this person may change runs, and the one around this component. */
export function useMayOperate(): boolean {
  const isReadOnly = useContext(ReadOnlyContext);
  const role = useSession()?.role;
  return !isReadOnly && (role === "operator" || role === "admin");
}

export function useSignIn() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (credentials: { username: string; password: string }) => body(api.POST("/api/session", { body: credentials })),
    onSuccess: (session) => queries.setQueryData(sessionQuery.queryKey, session),
  });
}

export function useSignOut() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => body(api.DELETE("/api/session")),
    onSettled: () => {
      queries.clear();
      // A fresh page: nothing of the last person stays in memory.
      location.assign("/login");
    },
  });
}
