/** API queries and mutations for projects. */

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { useChange } from "@/api/changes";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type Project = Schemas["ProjectRow"];
export type NewProject = Schemas["CreateProjectRequest"];
export type ProjectChange = Schemas["PatchedChangeProjectRequest"];

const PROJECTS_PER_PAGE = 50;
const KEY = ["projects"] as const;
const REREAD_MS = 10_000;

/** The pages of the list of projects, as an infinite query. */
export function projectsQuery(isArchived: boolean) {
  return infiniteQueryOptions({
    queryKey: [...KEY, "list", isArchived],
    queryFn: ({ pageParam }) =>
      body(
        api.GET("/api/v1/projects", {
          params: { query: { archived: isArchived || undefined, limit: PROJECTS_PER_PAGE, cursor: pageParam || undefined } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: REREAD_MS,
  });
}

/** The first page of current projects, for menus and the palette. */
export const projectChoicesQuery = queryOptions({
  queryKey: [...KEY, "choices"],
  queryFn: async () => (await body(api.GET("/api/v1/projects", { params: { query: { limit: 200 } } }))).results,
  staleTime: 30_000,
});

export function projectQuery(name: string) {
  return queryOptions({
    queryKey: [...KEY, "one", name],
    queryFn: () => body(api.GET("/api/v1/projects/{project}", { params: { path: { project: name } } })),
    retry: false,
  });
}

export function useCreateProject() {
  return useChange(KEY, (project: NewProject) => body(api.POST("/api/v1/projects", { body: project })));
}

export function useChangeProject(name: string) {
  return useChange(KEY, (change: ProjectChange) =>
    body(api.PATCH("/api/v1/projects/{project}", { params: { path: { project: name } }, body: change })),
  );
}

export function useDeleteProject(name: string) {
  return useChange(KEY, (reason: string) =>
    body(api.DELETE("/api/v1/projects/{project}", { params: { path: { project: name }, query: { reason } } })),
  );
}
