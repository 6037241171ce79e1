import { Button, Menu } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { type AlertRule, rulesQuery, useDeleteRule, useSetRule } from "@/api/alertRules";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import { Age } from "@/components/Age";
import { Chip } from "@/components/Chip";
import { rolldeckCommand } from "@/components/commandToken";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { ReasonDialog } from "@/components/ReasonDialog";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { number, visible } from "@/format";
import { SnoozeDialog } from "@/pages/alerts/SnoozeDialog";
import { formOf, ruleOf } from "@/rules/drafts";
import RuleDialog from "@/rules/RuleDialog";
import css from "@/rules/rules.module.css";

type RuleAction = "switch" | "delete" | "snooze";

/** Whether a rule is enabled, and whether it is firing. */
function RuleChip({ rule }: { rule: AlertRule }) {
  if (!rule.is_enabled)
    return (
      <Chip tone="quiet" sign="◌" data-rule-state="off">
        disabled
      </Chip>
    );
  if (rule.firing === 0)
    return (
      <Chip tone="good" sign="✓" data-rule-state="quiet">
        not firing
      </Chip>
    );
  const tone = rule.severity === "error" ? "bad" : "held";
  return (
    <Chip tone={tone} sign="▲" data-rule-state="firing">
      firing in {number(rule.firing)}
    </Chip>
  );
}

function Where({ rule }: { rule: AlertRule }) {
  if (rule.run)
    return (
      <Link to="/runs/$name/metrics" params={{ name: rule.run }} search={{ charts: [rule.metric] }} className="strong run-name">
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

function Line({
  rule,
  mayOperate,
  onEdit,
  onAction,
}: {
  rule: AlertRule;
  mayOperate: boolean;
  onEdit: () => void;
  onAction: (action: RuleAction) => void;
}) {
  return (
    <tr data-row data-rule={rule.id} className="opens">
      <td>
        <RuleChip rule={rule} />
      </td>
      <td className={`anywhere ${css.when}`}>
        <button type="button" className="row-open" data-open onClick={onEdit}>
          {visible(rule.name)}
        </button>
        <div className="small soft">
          {visible(rule.metric)} {rule.condition} · {rule.severity}
        </div>
      </td>
      <td>
        <Where rule={rule} />
      </td>
      <td className="soft small wide-only">
        {visible(rule.changed_by)}, <Age at={rule.changed_at} suffix=" ago" />
      </td>
      <td className={`num ${css.actions}`}>
        <Menu position="bottom-end">
          <Menu.Target>
            <Button
              size="compact-sm"
              variant="default"
              disabled={!mayOperate}
              aria-label={`Actions for ${visible(rule.name)}`}
              title={mayOperate ? undefined : TAKES_OPERATOR}
            >
              Actions
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            <Menu.Item onClick={onEdit}>Edit…</Menu.Item>
            <Menu.Item onClick={() => onAction("snooze")}>Snooze…</Menu.Item>
            <Menu.Item onClick={() => onAction("switch")}>{rule.is_enabled ? "Disable…" : "Enable…"}</Menu.Item>
            <Menu.Item className="bad" onClick={() => onAction("delete")}>
              Delete…
            </Menu.Item>
          </Menu.Dropdown>
        </Menu>
      </td>
    </tr>
  );
}

function SwitchRule({ rule, onClose }: { rule: AlertRule; onClose: () => void }) {
  const set = useSetRule(rule.id);
  const isOn = rule.is_enabled;
  return (
    <ReasonDialog
      title={`${isOn ? "Disable" : "Enable"} ${visible(rule.name)}?`}
      submit={isOn ? "Disable rule" : "Enable rule"}
      asking={set}
      refused="Rule not changed"
      onClose={onClose}
      onSubmit={(reason) => set.mutate(ruleOf({ ...formOf(rule), isEnabled: !isOn }, reason), { onSuccess: onClose })}
    >
      <p>
        {isOn ? "The rule is kept but no longer evaluated; its alerts resolve within seconds." : "The rule takes effect within seconds."}
      </p>
    </ReasonDialog>
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

/** User-defined alert rules. */
export function RulesPanel({ opened, onOpen }: { opened: number | "new" | undefined; onOpen: (rule: number | "new" | undefined) => void }) {
  const { data, error, isPending } = useQuery(rulesQuery);
  const mayOperate = useMayOperate();
  const [doing, setDoing] = useState<{ rule: AlertRule; action: RuleAction } | null>(null);
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
      {error && <ErrorState title="Rules unavailable" error={error} />}
      {isPending && <Skeletons heights={[160]} />}
      {data && rules.length === 0 && (
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
      )}
      {rules.length > 0 && (
        <Table
          label="Alert rules"
          columns={[
            "State",
            "Rule",
            "Scope",
            { label: "Changed", className: "wide-only" },
            { label: <span className="unseen">Actions</span> },
          ]}
        >
          {rules.map((rule) => (
            <Line
              key={rule.id}
              rule={rule}
              mayOperate={mayOperate}
              onEdit={() => onOpen(rule.id)}
              onAction={(action) => setDoing({ rule, action })}
            />
          ))}
        </Table>
      )}
      {opened === "new" && <RuleDialog onClose={close} />}
      {edited && <RuleDialog key={edited.id} rule={edited} onClose={close} />}
      {doing?.action === "switch" && <SwitchRule rule={doing.rule} onClose={() => setDoing(null)} />}
      {doing?.action === "delete" && <DeleteRule rule={doing.rule} onClose={() => setDoing(null)} />}
      {doing?.action === "snooze" && (
        <SnoozeDialog title={doing.rule.name} subject={{ rule: doing.rule.id }} onClose={() => setDoing(null)} />
      )}
    </Panel>
  );
}
