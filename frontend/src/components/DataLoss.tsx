import { Alert, Box, Button, Group, Stack } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { type AlertKind, type AlertRow, useAlertAction, useAlertSummary } from "@/api/alerts";
import { useMayOperate } from "@/api/session";
import { Age } from "@/components/inline";
import { ErrorState } from "@/components/panels";
import { counted, visible } from "@/format";

/** The kinds of alerts that state a loss of data. */
const LOSSES: ReadonlySet<AlertKind> = new Set(["pushes_refused", "stale_drops"]);

type LossAlert = AlertRow & { count?: number };

/** Whether an alert states a loss of data that no user has acknowledged. */
export const isLoss = ({ kind, state, is_snoozed }: Pick<AlertRow, "kind" | "state" | "is_snoozed">): boolean =>
  LOSSES.has(kind) && state === "open" && !is_snoozed;

function Loss({ alert }: { alert: LossAlert }) {
  const action = useAlertAction();
  const mayOperate = useMayOperate();
  const others = (alert.count ?? 1) - 1;
  return (
    <Group component="li" gap="xs" data-loss={alert.kind}>
      <Box component="span" flex="1 1 16rem">
        <Link to="/alerts" search={{ alert: alert.id }} className="anywhere" data-strong>
          {visible(alert.message)}
        </Link>{" "}
        <span className="soft small">
          <Age at={alert.first_seen_at} suffix=" ago" />
        </span>
        {others > 0 && (
          <Link to="/alerts" search={{ kind: alert.kind }} className="small nowrap">
            {` ${counted(others, "more alert")} of this kind`}
          </Link>
        )}
      </Box>
      {mayOperate && (
        <Button
          size="compact-sm"
          variant="default"
          loading={action.isPending}
          onClick={() => action.mutate({ id: alert.id, verb: "acknowledge", reason: "" })}
        >
          Acknowledge
        </Button>
      )}
      {action.error && <ErrorState title="Not acknowledged" error={action.error} />}
    </Group>
  );
}

/** Data that is being refused or dropped, until the loss ends or a user acknowledges it. */
export function DataLoss({ alerts }: { alerts: LossAlert[] }) {
  const losses = alerts.filter(isLoss);
  if (losses.length === 0) return null;
  return (
    <Alert role="region" variant="outline" color="bad" icon="▲" mb="sm" py="xs" bg="var(--panel)" aria-label="Loss of data">
      <Stack component="ul" gap={4} m={0} p={0}>
        {losses.map((alert) => (
          <Loss key={alert.id} alert={alert} />
        ))}
      </Stack>
    </Alert>
  );
}

/** The loss of data of some runs, or of all runs, as of the live summary. */
export function LossOfRuns({ runs }: { runs?: readonly string[] }) {
  const groups = useAlertSummary()?.groups ?? [];
  return <DataLoss alerts={runs ? groups.filter((group) => group.runs.some((run) => runs.includes(run))) : groups} />;
}
