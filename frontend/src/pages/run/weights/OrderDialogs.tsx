import { Box, Button, Group, Modal, NativeSelect, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { PolicyVersionRow, RunDetail, WeightsOrders } from "@/api/types";
import { type WeightsOrder, useOrderWeights } from "@/api/weights";
import { ErrorState } from "@/components/ErrorState";
import { policyStep } from "@/format";
import { pinEffect, pinnable } from "@/pages/run/weights/orders";

type FormProps = {
  run: string;
  title: string;
  order: Omit<WeightsOrder, "reason"> | null;
  verb: string;
  onClose: () => void;
  children: ReactNode;
};

/** What is to happen, a reason, and what came of asking. */
function OrderForm({ run, title, order, verb, onClose, children }: FormProps) {
  const [reason, setReason] = useState("");
  const give = useOrderWeights(run);
  return (
    <Modal opened onClose={onClose} title={title}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (order) give.mutate({ ...order, reason }, { onSuccess: onClose });
        }}
      >
        {children}
        <TextInput mt="md" label="Reason" description="Kept in the run's events with your name." value={reason} maxLength={2000} onChange={(event) => setReason(event.currentTarget.value)} />
        {give.error && (
          <Box mt="md">
            <ErrorState title="The weights stay as they are" error={give.error} />
          </Box>
        )}
        <Group justify="flex-end" mt="lg">
          <Button variant="default" onClick={onClose}>
            Leave them as they are
          </Button>
          <Button type="submit" loading={give.isPending} disabled={!order}>
            {verb}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}

type PinProps = { run: RunDetail; orders: WeightsOrders; versions: PolicyVersionRow[]; onClose: () => void };

/** Choose the version that workers keep; what that does to staleness is said first. */
export function PinDialog({ run, orders, versions, onClose }: PinProps) {
  const choices = pinnable(versions, { run, orders });
  const [chosen, setChosen] = useState<string>(String(choices.some(({ step }) => step === orders.acting_step) ? orders.acting_step : (choices[0]?.step ?? "")));
  const step = chosen === "" ? null : Number(chosen);
  return (
    <OrderForm run={run.name} title="Keep a version" order={step === null || step === orders.pinned_step ? null : { verb: "pin", step }} verb="Keep it" onClose={onClose}>
      <NativeSelect
        label="Version"
        description={run.kind === "language" ? "The newest, or the one that is kept: the inference of a language run takes no earlier ones." : "Those whose file is still kept. Workers take it even if it is an earlier one."}
        value={chosen}
        data={choices.map((version) => ({ value: String(version.step), label: `${version.epoch}.${policyStep(version.step)}${version.step === run.policy_step ? ", the newest" : ""}` }))}
        onChange={(event) => setChosen(event.currentTarget.value)}
        data-autofocus
      />
      <p className="soft" role="status">
        {step === null ? "No version is kept that workers could take." : pinEffect({ step, newest: run.policy_step, most: run.max_staleness })}
      </p>
      <p className="small faint">It outlasts a restart of workers, manager and platform, and ends with this epoch.</p>
    </OrderForm>
  );
}

type Props = { run: RunDetail; orders: WeightsOrders; onClose: () => void };

/** Let workers follow the newest version again. */
export function UnpinDialog({ run, orders, onClose }: Props) {
  return (
    <OrderForm run={run.name} title="Follow the newest version again" order={{ verb: "unpin" }} verb="Follow again" onClose={onClose}>
      <p className="soft">Each worker takes version {policyStep(orders.newest_step)} beside its rollouts, and every later one when it is published.</p>
    </OrderForm>
  );
}

/** Have workers take the version that holds anew. */
export function SyncDialog({ run, orders, onClose }: Props) {
  return (
    <OrderForm run={run.name} title="Take the weights anew" order={{ verb: "sync" }} verb="Take anew" onClose={onClose}>
      <p className="soft">
        The fleet fetches version {policyStep(orders.acting_step)} again, checks it against its manifest, and every worker takes it once more beside its rollouts. Nothing is
        lost and nobody waits; for those that lag it is another try.
      </p>
    </OrderForm>
  );
}
