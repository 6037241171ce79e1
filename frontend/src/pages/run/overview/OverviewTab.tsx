import { Box, Group, Paper, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type AlertRow, RUN_ALERTS_SHOWN, runAlertsQuery } from "@/api/alerts";
import type { RunDetail } from "@/api/types";
import { AlertChip } from "@/components/chips";
import { isLoss } from "@/components/DataLoss";
import { Age } from "@/components/inline";
import { onDemand } from "@/components/onDemand";
import { Guarded, Panels, Skeletons } from "@/components/panels";
import { visible } from "@/format";
import { Events } from "@/pages/run/logs/Events";
import { Figures } from "@/pages/run/overview/Figures";
import { OverviewCharts } from "@/pages/run/overview/OverviewCharts";
import { StartCard } from "@/pages/run/overview/StartCard";
import { Ledger } from "@/pages/run/queue/Ledger";
import { useRun, useRunPart, useRunSeries } from "@/pages/run/RunContext";

const NotesPanel = onDemand(() => import("@/pages/run/notes/NotesPanel"), "default");
const Newest = onDemand(() => import("@/pages/run/overview/Newest"), "default");

const EVENTS_SHOWN = 60;

/** Open alerts of the run; nothing if there are none. */
function RunAlerts({ run, rows }: { run: RunDetail; rows: AlertRow[] }) {
  if (rows.length === 0) return null;
  return (
    <Paper component="section" px="md" py="xs" mb="sm" aria-label="Alerts of this run">
      <Stack gap="xs">
        {rows.slice(0, RUN_ALERTS_SHOWN).map((alert) => (
          <Group key={alert.id} data-alert-id={alert.id} gap="0.25rem 0.85rem" align="baseline">
            <AlertChip alert={alert} />
            <Box flex="1 1 14rem" className="anywhere">
              <Link to="/alerts" search={{ alert: alert.id }}>
                {visible(alert.message)}
              </Link>
            </Box>
            <span className="soft small nowrap">
              <Age at={alert.first_seen_at} suffix=" ago" />
            </span>
          </Group>
        ))}
        {rows.length > RUN_ALERTS_SHOWN && (
          <Link to="/alerts" search={{ run: run.name }} className="small">
            All alerts of this run
          </Link>
        )}
      </Stack>
    </Paper>
  );
}

const LiveLedger = () => <Ledger run={useRun().run} ledger={useRunPart("ledger")} />;

/** The run on one screen: figures, status, curves with the return first, ledger and newest data. */
export function OverviewTab() {
  const { run } = useRun();
  const events = useRunSeries("events");
  const alerts = useQuery(runAlertsQuery(run.name));
  // Alerts that are shown late would move the curves.
  if (alerts.isPending) return <Skeletons heights={[76, 44, 330, 330]} />;
  return (
    <Guarded>
      <StartCard />
      <Figures />
      <Panels>
        <RunAlerts run={run} rows={(alerts.data ?? []).filter((alert) => !isLoss(alert))} />
      </Panels>
      <OverviewCharts />
      <Panels style={{ marginTop: "1rem" }}>
        <LiveLedger />
        {/* Same height as without a note. */}
        <Box mih="5.6rem">
          <NotesPanel run={run.name} events={events} />
        </Box>
        <Newest run={run} />
        <Events events={events.slice(-EVENTS_SHOWN).reverse()} />
      </Panels>
    </Guarded>
  );
}
