import { Button, UnstyledButton, VisuallyHidden } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { type AlertRule, rulesQuery, useDeleteRule } from "@/api/alerts";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import { Chip } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { ReasonDialog } from "@/components/Dialog";
import { Age } from "@/components/inline";
import { EmptyState, Panel, rolldeckCommand } from "@/components/panels";
import { number, visible } from "@/format";
import RuleDialog from "@/rules/RuleDialog";
import { panelOfRule } from "@/wall/panels";

/** Whether a rule is enabled, and whether it is firing. */
function RuleChip({ rule: { is_enabled, firing, severity } }: { rule: AlertRule }) {
  const [tone, sign, state, words] = !is_enabled
    ? ["quiet", "◌", "off", "disabled"]
    : firing === 0
      ? ["good", "✓", "quiet", "not firing"]
      : [severity === "error" ? "bad" : "held", "▲", "firing", `firing in ${number(firing)}`];
  return (
    <Chip tone={tone} sign={sign} data-rule-state={state}>
      {words}
    </Chip>
  );
}

function Where({ rule }: { rule: AlertRule }) {
  if (rule.run)
    return (
      <Link to="/runs/$name/metrics" params={{ name: rule.run }} search={{ charts: [panelOfRule(rule.metric)] }} data-strong>
        {rule.run}
      </Link>
    );
  return rule.filter ? (
    <Link to="/runs" search={{ q: rule.filter }} className="anywhere">
      {visible(rule.filter)}
    </Link>
  ) : (
    <span className="faint">all runs</span>
  );
}

function DeleteRule({ rule, onClose }: { rule: AlertRule; onClose: () => void }) {
  const remove = useDeleteRule(rule.id);
  return (
    <ReasonDialog
      title={`Delete ${visible(rule.name)}?`}
      submit="Delete rule"
      destroys
      asking={remove}
      refused="Rule not deleted"
      onClose={onClose}
      onSubmit={(reason) => remove.mutate(reason, { onSuccess: onClose })}
    >
      <p>Deletes the rule and its snoozes; its alerts resolve within seconds. The audit log keeps the definition.</p>
    </ReasonDialog>
  );
}

const columnsOf = (mayOperate: boolean, onEdit: (rule: number) => void, onDelete: (rule: AlertRule) => void): Column<AlertRule>[] => [
  { label: "State", cell: (rule) => <RuleChip rule={rule} />, value: ({ firing }) => firing },
  {
    label: "Rule",
    className: "anywhere",
    value: ({ name }) => name,
    cell: ({ id, name, metric, condition, severity, action }) => (
      <>
        <UnstyledButton data-open onClick={() => onEdit(id)}>
          {visible(name)}
        </UnstyledButton>
        <div className="small soft">
          {visible(metric)} {condition} · {severity}
          {action === "pause" && " · pauses the run"}
        </div>
      </>
    ),
  },
  { label: "Scope", cell: (rule) => <Where rule={rule} /> },
  {
    label: "Changed",
    className: "soft small mantine-visible-from-sm",
    value: ({ changed_at }) => changed_at,
    cell: ({ changed_by, changed_at }) => (
      <>
        {visible(changed_by)}, <Age at={changed_at} suffix=" ago" />
      </>
    ),
  },
  {
    id: "actions",
    label: <VisuallyHidden>Actions</VisuallyHidden>,
    isNumber: true,
    className: "nowrap",
    cell: (rule) => (
      <Button
        size="compact-sm"
        variant="subtle"
        color="red"
        disabled={!mayOperate}
        title={mayOperate ? undefined : TAKES_OPERATOR}
        aria-label={`Delete ${visible(rule.name)}`}
        onClick={() => onDelete(rule)}
      >
        Delete…
      </Button>
    ),
  },
];

/** User-defined alert rules. */
export function RulesPanel({ opened, onOpen }: { opened: number | "new" | undefined; onOpen: (rule: number | "new" | undefined) => void }) {
  const { data, error } = useQuery(rulesQuery);
  const mayOperate = useMayOperate();
  const [deleted, setDeleted] = useState<AlertRule | null>(null);
  const rules = data?.results ?? [];
  const edited = rules.find(({ id }) => id === opened);
  const close = () => onOpen(undefined);
  return (
    <Panel
      title="Alert rules"
      note={data && `${number(rules.length)} of at most ${number(data.at_most)}`}
      aside={
        <Button size="compact-sm" disabled={!mayOperate} title={mayOperate ? undefined : TAKES_OPERATOR} onClick={() => onOpen("new")}>
          New rule
        </Button>
      }
    >
      <DataTable
        label="Alert rules"
        rows={data?.results}
        error={error}
        columns={columnsOf(mayOperate, onOpen, setDeleted)}
        keyOf={({ id }) => id}
        attributes={({ id }) => ({ "data-opens": true, "data-row": true, "data-rule": id })}
        empty={
          <EmptyState
            title="No rules yet"
            command={rolldeckCommand(
              'api POST alerts/rules name="Loss too high" metric=train/loss comparator=above threshold=4 for_seconds=60',
            )}
            needs={{ scope: "user" }}
          >
            A rule fires an alert when a metric of a run is too high, too low or not finite for a given time. Create one here, or from the
            menu of any chart on a run's Metrics tab.
          </EmptyState>
        }
      />
      {opened === "new" && <RuleDialog onClose={close} />}
      {edited && <RuleDialog key={edited.id} rule={edited} onClose={close} />}
      {deleted && <DeleteRule rule={deleted} onClose={() => setDeleted(null)} />}
    </Panel>
  );
}
