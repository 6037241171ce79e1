import { Alert, Button, Group } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, body } from "@/api/client";
import { actOnRuns } from "@/api/runs";
import { useMayOperate } from "@/api/session";
import type { RunDetail } from "@/api/types";
import { Moment } from "@/components/inline";
import { ErrorState } from "@/components/panels";
import { visible } from "@/format";

/** The most recent archive event of the run. */
function useArchiving(address: string, archivedAt: string) {
  const { data } = useQuery({
    queryKey: ["archived-by", address, archivedAt],
    queryFn: () =>
      body(api.GET("/api/v1/runs/{run}/events", { params: { path: { run: address }, query: { kinds: "archived", limit: 1 } } })),
    staleTime: Number.POSITIVE_INFINITY,
  });
  return data?.results[0];
}

/** Notice on archived runs, which are read-only; operators can unarchive them here. */
export function ArchivedBanner({ run, address, archivedAt }: { run: RunDetail; address: string; archivedAt: string }) {
  const mayOperate = useMayOperate();
  const navigate = useNavigate();
  const event = useArchiving(address, archivedAt);
  const unarchive = useMutation({
    mutationFn: async () => {
      const [result] = await actOnRuns({ action: "unarchive", which: { ids: [run.id] }, reason: "", tag: "" }, () => {});
      if (result?.problem) throw new Error(result.problem);
    },
    onSuccess: () => navigate({ to: "/runs/$name", params: { name: run.name }, replace: true }),
  });
  return (
    <>
      <Alert color="gray" variant="light" mb="sm" data-archived role="status" title="This run is archived and read-only">
        <Group justify="space-between" gap="xs">
          <span className="anywhere">
            Archived <Moment at={archivedAt} />
            {event && ` by ${visible(event.actor)}`}
            {event?.reason && ` “${visible(event.reason)}”`}.
          </span>
          {mayOperate && (
            <Button size="compact-sm" variant="default" loading={unarchive.isPending} onClick={() => unarchive.mutate()}>
              Unarchive
            </Button>
          )}
        </Group>
      </Alert>
      {unarchive.error && <ErrorState title="Unarchive failed" error={unarchive.error} />}
    </>
  );
}
