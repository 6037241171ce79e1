import { Button, Group, Select, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type AlertKind, useAlertKinds } from "@/api/alerts";
import { useMayOperate } from "@/api/session";
import { Dialog } from "@/components/Dialog";
import { ErrorState } from "@/components/ErrorState";
import { rulesQuery, useSilence } from "@/pages/alerts/api";
import { endOf, LENGTHS } from "./lengths";
import css from "./silences.module.css";

const ANY_RULE = "any";

type SilenceStart = { kind?: AlertKind; rule?: number | null; run?: string | null };

/** Suspend the notifications of alerts. */
export function SilenceDialog({ start, onClose }: { start: SilenceStart; onClose: () => void }) {
  const mayOperate = useMayOperate();
  const kinds = useAlertKinds();
  const [kind, setKind] = useState<AlertKind>(start.kind ?? "run_stalled");
  const [rule, setRule] = useState(start.rule ? String(start.rule) : ANY_RULE);
  const [run, setRun] = useState(start.run ?? "");
  const [length, setLength] = useState("4");
  const [until, setUntil] = useState("");
  const [reason, setReason] = useState("");
  const rules = useQuery({ ...rulesQuery, enabled: kind === "rule" }).data?.results ?? [];
  const silence = useSilence();
  const send = () => {
    const end = endOf(length, until, Date.now());
    if (!end || !reason.trim()) return;
    silence.mutate(
      { kind, rule: kind === "rule" && rule !== ANY_RULE ? Number(rule) : null, run: run.trim() || null, until: end, reason },
      { onSuccess: onClose },
    );
  };
  const isReady = reason.trim() !== "" && (length !== "until" || until !== "");
  return (
    <Dialog onClose={onClose} title="Silence alerts">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
      >
        <p className="soft">
          Silenced alerts stay visible but send no notifications. Alerts still active when the silence ends notify then.
        </p>
        <div className={css.fields}>
          <Select
            label="Alert kind"
            searchable
            allowDeselect={false}
            data={kinds}
            value={kind}
            onChange={(value) => value && setKind(value as AlertKind)}
          />
          {kind === "rule" && (
            <Select
              label="Rule"
              allowDeselect={false}
              data={[{ value: ANY_RULE, label: "all rules" }, ...rules.map(({ id, name }) => ({ value: String(id), label: name }))]}
              value={rule}
              onChange={(value) => value && setRule(value)}
            />
          )}
          <TextInput
            label="Run"
            description="Empty: all runs, and alerts of the server."
            spellCheck={false}
            value={run}
            onChange={(event) => setRun(event.currentTarget.value)}
          />
          <Select
            label="Duration"
            allowDeselect={false}
            data={[...LENGTHS]}
            value={length}
            onChange={(value) => value && setLength(value)}
          />
          {length === "until" && (
            <TextInput
              type="datetime-local"
              label="Until"
              description="In this browser's time zone; at most 30 days ahead."
              required
              value={until}
              onChange={(event) => setUntil(event.currentTarget.value)}
            />
          )}
          <Textarea
            label="Reason"
            description="Shown beside the alert and recorded in the audit log."
            required
            autosize
            minRows={2}
            maxLength={2000}
            data-autofocus
            value={reason}
            onChange={(event) => setReason(event.currentTarget.value)}
          />
        </div>
        {silence.error && <ErrorState title="Silence not added" error={silence.error} />}
        <Group className="dialog-foot" justify="flex-end" mt="lg">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={silence.isPending} disabled={!mayOperate || !isReady}>
            Add silence
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
