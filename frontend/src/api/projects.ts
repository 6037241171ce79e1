/** API queries and mutations for projects. */

import { api, ask, askRows, body, pagesOf, useChange } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type Project = Schemas["ProjectRow"];
export type NewProject = Schemas["CreateProjectRequest"];

const KEY = ["projects"] as const;
const load = (query: { archived?: true; limit: number; cursor?: string }) => api.GET("/api/v1/projects", { params: { query } });

/** The pages of the list of projects. */
export const projectsQuery = (isArchived: boolean) => ({
  ...pagesOf([...KEY, "list", isArchived], (cursor) => body(load({ archived: isArchived || undefined, limit: 50, cursor }))),
  refetchInterval: 60_000,
});

/** The first page of current projects, for menus and the palette. */
export const projectChoicesQuery = askRows([...KEY, "choices"], () => load({ limit: 200 }), { staleTime: 30_000 });

const at = (project: string) => ({ path: { project } });

export const projectQuery = (name: string) =>
  ask([...KEY, "one", name], () => api.GET("/api/v1/projects/{project}", { params: at(name) }), { retry: false });

export const useCreateProject = () => useChange(KEY, (project: NewProject) => body(api.POST("/api/v1/projects", { body: project })));

export const useChangeProject = (name: string) =>
  useChange(KEY, (change: Schemas["PatchedChangeProjectRequest"]) =>
    body(api.PATCH("/api/v1/projects/{project}", { params: at(name), body: change })),
  );

export const useDeleteProject = (name: string) =>
  useChange(KEY, (reason: string) => body(api.DELETE("/api/v1/projects/{project}", { params: { ...at(name), query: { reason } } })));
