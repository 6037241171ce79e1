import { NativeSelect } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { PolicyVersionRow, RunDetail, WeightsCommands } from "@/api/types";
import { ReasonDialog } from "@/components/ReasonDialog";
import { RECORDED_IN_EVENTS } from "@/components/recordedIn";
import { policyStep, versionName } from "@/format";
import { useOrderWeights, type WeightsCommand } from "@/pages/run/weights/api";
import { pinEffect, pinnable } from "@/pages/run/weights/commands";

type FormProps = {
  run: string;
  title: string;
  order: Omit<WeightsCommand, "reason"> | null;
  verb: string;
  onClose: () => void;
  children: ReactNode;
};

function OrderForm({ run, title, order, verb, onClose, children }: FormProps) {
  const give = useOrderWeights(run);
  return (
    <ReasonDialog
      title={title}
      asking={give}
      refused="Weights not changed"
      submit={verb}
      recordedIn={RECORDED_IN_EVENTS}
      isReady={order !== null}
      onSubmit={(reason) => order && give.mutate({ ...order, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      {children}
    </ReasonDialog>
  );
}

type PinProps = { run: RunDetail; orders: WeightsCommands; versions: PolicyVersionRow[]; onClose: () => void };

/** Pin a version for the workers; shows the effect on staleness. */
export function PinDialog({ run, orders, versions, onClose }: PinProps) {
  const choices = pinnable(versions, { run, orders });
  const [chosen, setChosen] = useState<string>(
    String(choices.some(({ step }) => step === orders.acting_step) ? orders.acting_step : (choices[0]?.step ?? "")),
  );
  const step = chosen === "" ? null : Number(chosen);
  return (
    <OrderForm
      run={run.name}
      title="Pin a version"
      order={step === null || step === orders.pinned_step ? null : { verb: "pin", step }}
      verb="Pin"
      onClose={onClose}
    >
      <NativeSelect
        label="Version"
        description={
          run.kind === "language"
            ? "The newest or the pinned version; the inference engine of a language run cannot load earlier ones."
            : "Versions whose file is still stored. Workers load them even if they are older than the current one."
        }
        value={chosen}
        data={choices.map((version) => ({
          value: String(version.step),
          label: `${versionName(version.epoch, version.step)}${version.step === run.policy_step ? ", the newest" : ""}`,
        }))}
        onChange={(event) => setChosen(event.currentTarget.value)}
        data-autofocus
      />
      <p className="soft" role="status">
        {step === null ? "No stored version can be loaded." : pinEffect({ step, newest: run.policy_step, most: run.max_staleness })}
      </p>
      <p className="small faint">The pin survives restarts of workers, manager and server, and ends with this epoch.</p>
    </OrderForm>
  );
}

type Props = { run: RunDetail; orders: WeightsCommands; onClose: () => void };

/** Unpin: workers follow the newest version again. */
export function UnpinDialog({ run, orders, onClose }: Props) {
  return (
    <OrderForm run={run.name} title="Follow the newest version" order={{ verb: "unpin" }} verb="Follow newest" onClose={onClose}>
      <p className="soft">
        Each worker loads version {policyStep(orders.newest_step)} during its rollouts, and each later one when published.
      </p>
    </OrderForm>
  );
}

/** Reload the current version on all workers. */
export function SyncDialog({ run, orders, onClose }: Props) {
  return (
    <OrderForm run={run.name} title="Reload weights" order={{ verb: "sync" }} verb="Reload" onClose={onClose}>
      <p className="soft">
        The fleet downloads version {policyStep(orders.acting_step)} again and verifies it against its manifest. Every worker then reloads
        it during its rollouts, without data loss or interruption. Workers that lag behind retry.
      </p>
    </OrderForm>
  );
}
