import { SegmentedControl } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useAlertSummary } from "@/api/alerts";
import { onDemand } from "@/components/onDemand";
import { Skeletons } from "@/components/Skeletons";
import { counted, number } from "@/format";
import { AlertList } from "@/pages/alerts/AlertList";
import { SnoozedList } from "@/pages/alerts/SnoozedList";
import type { AlertsSearch } from "@/pages/alerts/search";
import css from "./alerts.module.css";

const RulesPanel = onDemand(() => import("@/pages/alerts/RulesPanel"), "RulesPanel", <Skeletons heights={[260]} />);

/** What the page shows: alerts in a state, or another list. */
const LISTS: { value: string; label: string; search: AlertsSearch }[] = [
  { value: "unresolved", label: "Unresolved", search: {} },
  { value: "acknowledged", label: "Acknowledged", search: { state: "acknowledged" } },
  { value: "resolved", label: "Resolved", search: { state: "resolved" } },
  { value: "all", label: "All", search: { state: "all" } },
  { value: "snoozed", label: "Snoozed", search: { view: "snoozed" } },
  { value: "rules", label: "Rules", search: { view: "rules" } },
];

/** The alerts page: alerts by state, snoozed alerts, and rules. */
export function AlertsPage() {
  const { alert: opened, view, rule, ...asked } = useSearch({ from: "/shell/alerts" });
  const navigate = useNavigate({ from: "/alerts" });
  const summary = useAlertSummary();
  const look = (changes: AlertsSearch, replace = true) =>
    void navigate({ search: (now) => Object.fromEntries(Object.entries({ ...now, ...changes }).filter(([, value]) => value)), replace });
  const show = (list: string) => {
    const search = LISTS.find(({ value }) => value === list)?.search ?? {};
    // The filters of the alerts stay when another state is chosen.
    if (search.view || view) void navigate({ search });
    else look({ state: undefined, ...search });
  };
  return (
    <>
      <div className="page-title">
        <h1>Alerts</h1>
        <div className={css.lists}>
          <SegmentedControl
            size="xs"
            aria-label="List"
            data={LISTS.map(({ value, label }) => ({ value, label }))}
            value={view ?? asked.state ?? "unresolved"}
            onChange={show}
          />
        </div>
        <span className="spacer" />
        {summary && (
          <span className="soft small" data-summary>
            {counted(summary.errors, "error")}, {counted(summary.warnings, "warning")} open · {number(summary.acknowledged)} acknowledged
            {summary.snoozed > 0 && ` · ${number(summary.snoozed)} snoozed`}
          </span>
        )}
      </div>
      {view === "rules" && <RulesPanel opened={rule} onOpen={(next) => look({ rule: next }, false)} />}
      {view === "snoozed" && (
        <section className="panel" aria-label="Snoozed alerts and rules">
          <SnoozedList />
        </section>
      )}
      {view === undefined && <AlertList asked={asked} opened={opened} look={look} />}
    </>
  );
}
