/** The signed-in user and their permissions. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, useContext } from "react";
import { api, ask, body, useChange } from "@/api/client";
import type { Session } from "@/api/types";

export const sessionQuery = ask(["session"], () => api.GET("/api/v1/session"), { staleTime: 60_000 });

export const useSession = (): Session | undefined => useQuery(sessionQuery).data;

/** Hints beside actions that the user may not perform. */
export const TAKES_OPERATOR = "Requires the operator role.";
export const TAKES_ADMIN = "Requires the administrator role.";

/** Whether the user may change deployment-wide settings. */
export const useMayAdminister = (): boolean => useSession()?.role === "admin";

/** True within an archived run: the server refuses every change. */
export const ReadOnlyContext = createContext(false);

/** Whether the user may change runs, including the run of this context. */
export function useMayOperate(): boolean {
  const isReadOnly = useContext(ReadOnlyContext);
  const role = useSession()?.role;
  return !isReadOnly && (role === "operator" || role === "admin");
}

export function useSignIn() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (credentials: { username: string; password: string }) => body(api.POST("/api/v1/session", { body: credentials })),
    onSuccess: (session) => queries.setQueryData(sessionQuery.queryKey, session),
  });
}

/** Change the user's password; other browsers are signed out. */
export const useChangePassword = () =>
  useChange(["sessions"], (passwords: { current_password: string; new_password: string }) =>
    body(api.PUT("/api/v1/session/password", { body: passwords })),
  );

export function useSignOut() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => body(api.DELETE("/api/v1/session")),
    onSettled: () => {
      queries.clear();
      // A full page load: nothing of the previous user stays in memory.
      location.assign("/login");
    },
  });
}
