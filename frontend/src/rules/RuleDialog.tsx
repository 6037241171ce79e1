import { Button, Group, Textarea } from "@mantine/core";
import { useState } from "react";
import { type AlertRule, useSetRule } from "@/api/alertRules";
import { ApiProblem } from "@/api/problems";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import { Dialog } from "@/components/Dialog";
import { ErrorState } from "@/components/ErrorState";
import { RECORDED_IN_AUDIT } from "@/components/recordedIn";
import { emptyForm, formOf, problemsOf, type RuleForm, type RuleStart, ruleOf } from "./drafts";
import { type FieldErrors, RuleFields } from "./RuleFields";

/** The server's errors by field, and whether any error belongs to no field. */
function splitErrors(error: Error | null): { fieldErrors: FieldErrors; rest: Error | null } {
  const fields = error instanceof ApiProblem ? error.fields : [];
  return { fieldErrors: Object.fromEntries(fields.map(({ field, message }) => [field, message])), rest: fields.length > 0 ? null : error };
}

type Props = { rule?: AlertRule; start?: RuleStart; onClose: () => void; onDone?: (rule: AlertRule) => void };

/** Create or edit a rule. */
export default function RuleDialog({ rule, start = {}, onClose, onDone }: Props) {
  const mayOperate = useMayOperate();
  const [form, setForm] = useState<RuleForm>(() => (rule ? formOf(rule) : emptyForm(start)));
  const [reason, setReason] = useState("");
  const [isTried, setTried] = useState(false);
  const set = useSetRule(rule?.id ?? null);
  const problems = problemsOf(form);
  const { fieldErrors, rest } = splitErrors(set.error);
  const change = (more: Partial<RuleForm>) => {
    set.reset();
    setForm((old) => ({ ...old, ...more }));
  };
  const save = () => {
    setTried(true);
    if (Object.keys(problems).length > 0) return;
    set.mutate(ruleOf(form, reason), {
      onSuccess: (made) => {
        onDone?.(made);
        onClose();
      },
    });
  };
  return (
    <Dialog onClose={onClose} size="32rem" title={rule ? `Edit rule ${rule.name}` : "New alert rule"}>
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          save();
        }}
      >
        <RuleFields form={form} fieldErrors={isTried ? { ...problems, ...fieldErrors } : fieldErrors} change={change} />
        <Textarea
          mt="md"
          label="Reason"
          description={RECORDED_IN_AUDIT}
          autosize
          minRows={1}
          maxLength={2000}
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
        />
        {rest && <ErrorState title="Rule not saved" error={rest} />}
        <Group className="dialog-foot" justify="flex-end" mt="lg">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button
            type="submit"
            loading={set.isPending}
            disabled={!mayOperate}
            title={mayOperate ? "Takes effect within seconds" : TAKES_OPERATOR}
          >
            {rule ? "Save rule" : "Create rule"}
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
