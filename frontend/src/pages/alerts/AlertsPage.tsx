import { SegmentedControl } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useAlertSummary } from "@/api/alerts";
import { onDemand } from "@/components/onDemand";
import { Skeletons } from "@/components/Skeletons";
import { counted, number } from "@/format";
import { AlertList } from "@/pages/alerts/AlertList";
import type { AlertsSearch } from "@/pages/alerts/search";

const WAITING = <Skeletons heights={[260]} />;
const RulesPanel = onDemand(() => import("@/pages/alerts/rules/RulesPanel"), "RulesPanel", WAITING);
const SilencesPanel = onDemand(() => import("@/pages/alerts/silences/SilencesPanel"), "SilencesPanel", WAITING);

const ALERTS = "alerts";
const PARTS = [
  { value: ALERTS, label: "Alerts" },
  { value: "rules", label: "Rules" },
  { value: "silences", label: "Silences" },
];

/** The alerts page: alerts, rules and silences. */
export function AlertsPage() {
  const { alert: opened, view, rule, ...asked } = useSearch({ from: "/shell/alerts" });
  const navigate = useNavigate({ from: "/alerts" });
  const summary = useAlertSummary();
  const look = (changes: AlertsSearch, replace = true) =>
    void navigate({ search: (now) => Object.fromEntries(Object.entries({ ...now, ...changes }).filter(([, value]) => value)), replace });
  const show = (part: string) => void navigate({ search: part === ALERTS ? {} : { view: part as AlertsSearch["view"] } });
  return (
    <>
      <div className="page-title">
        <h1>Alerts</h1>
        <SegmentedControl size="xs" aria-label="View" data={PARTS} value={view ?? ALERTS} onChange={show} />
        <span className="spacer" />
        {summary && (
          <span className="soft small" data-summary>
            {counted(summary.errors, "error")}, {counted(summary.warnings, "warning")} open · {number(summary.acknowledged)} acknowledged
            {summary.silenced > 0 && ` · ${number(summary.silenced)} silenced`}
          </span>
        )}
      </div>
      {view === "rules" && <RulesPanel opened={rule} onOpen={(next) => look({ rule: next }, false)} />}
      {view === "silences" && <SilencesPanel />}
      {view === undefined && <AlertList asked={asked} opened={opened} look={look} />}
    </>
  );
}
