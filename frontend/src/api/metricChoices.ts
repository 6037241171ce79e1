/** The metrics that the user chose last on a page, stored on the server by kind of run. */

import { queryOptions } from "@tanstack/react-query";
import { api, body } from "@/api/client";
import type { components } from "@/api/schema";

type Schemas = components["schemas"];
export type Choice = Schemas["MetricChoiceRow"];
type SetChoice = Schemas["SetMetricChoiceRequest"];
export type ChoiceView = Schemas["MetricChoiceView"];
export type ChoicePage = Choice["page"];
export type ChoiceKind = Choice["kind"];

export const metricChoicesQuery = queryOptions({
  queryKey: ["metric-choices"],
  queryFn: async (): Promise<Choice[]> => (await body(api.GET("/api/v1/metric-choices"))).results,
  // Changes of this tab are kept in the cache before the server has stored them.
  staleTime: Number.POSITIVE_INFINITY,
  retry: false,
});

export const saveChoice = (choice: SetChoice): Promise<Choice[]> =>
  body(api.PUT("/api/v1/metric-choices", { body: choice })).then(({ results }) => results);
