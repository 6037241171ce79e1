import { Alert, Button, Group } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { actOnRuns } from "@/api/runs";
import { useMayOperate } from "@/api/session";
import { Moment } from "@/components/inline";
import { ErrorState } from "@/components/panels";
import { visible } from "@/format";
import { useRun, useRunSeries } from "@/pages/run/RunContext";

/** Notice on archived runs, which are read-only; operators can unarchive them here. */
export function ArchivedBanner({ name, archivedAt }: { name: string; archivedAt: string }) {
  const { run } = useRun();
  const events = useRunSeries("events");
  const mayOperate = useMayOperate();
  const navigate = useNavigate();
  const event = events.findLast(({ kind }) => kind === "archived");
  const unarchive = useMutation({
    mutationFn: async () => {
      const [result] = await actOnRuns({ action: "unarchive", which: { ids: [run.id] }, reason: "", tag: "" }, () => {});
      if (result?.problem) throw new Error(result.problem);
    },
    onSuccess: () => navigate({ to: "/runs/$name", params: { name }, replace: true }),
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
