import { NativeSelect } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { PolicyVersionRow, RunDetail, WeightsOrders } from "@/api/types";
import { useOrderWeights, type WeightsOrder } from "@/api/weights";
import { KEPT_IN_EVENTS } from "@/components/keptIn";
import { ReasonDialog } from "@/components/ReasonDialog";
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

function OrderForm({ run, title, order, verb, onClose, children }: FormProps) {
  const give = useOrderWeights(run);
  return (
    <ReasonDialog
      title={title}
      asking={give}
      refused="The weights stay as they are"
      submit={verb}
      keptIn={KEPT_IN_EVENTS}
      isReady={order !== null}
      onSubmit={(reason) => order && give.mutate({ ...order, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      {children}
    </ReasonDialog>
  );
}

type PinProps = { run: RunDetail; orders: WeightsOrders; versions: PolicyVersionRow[]; onClose: () => void };

/** Choose the version that workers keep; what that does to staleness is said first. */
export function PinDialog({ run, orders, versions, onClose }: PinProps) {
  const choices = pinnable(versions, { run, orders });
  const [chosen, setChosen] = useState<string>(
    String(choices.some(({ step }) => step === orders.acting_step) ? orders.acting_step : (choices[0]?.step ?? "")),
  );
  const step = chosen === "" ? null : Number(chosen);
  return (
    <OrderForm
      run={run.name}
      title="Keep a version"
      order={step === null || step === orders.pinned_step ? null : { verb: "pin", step }}
      verb="Keep it"
      onClose={onClose}
    >
      <NativeSelect
        label="Version"
        description={
          run.kind === "language"
            ? "The newest, or the one that is kept: the inference of a language run takes no earlier ones."
            : "Those whose file is still kept. Workers take it even if it is an earlier one."
        }
        value={chosen}
        data={choices.map((version) => ({
          value: String(version.step),
          label: `${version.epoch}.${policyStep(version.step)}${version.step === run.policy_step ? ", the newest" : ""}`,
        }))}
        onChange={(event) => setChosen(event.currentTarget.value)}
        data-autofocus
      />
      <p className="soft" role="status">
        {step === null
          ? "No version is kept that workers could take."
          : pinEffect({ step, newest: run.policy_step, most: run.max_staleness })}
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
      <p className="soft">
        Each worker takes version {policyStep(orders.newest_step)} beside its rollouts, and every later one when it is published.
      </p>
    </OrderForm>
  );
}

/** Have workers take the version that holds anew. */
export function SyncDialog({ run, orders, onClose }: Props) {
  return (
    <OrderForm run={run.name} title="Take the weights anew" order={{ verb: "sync" }} verb="Take anew" onClose={onClose}>
      <p className="soft">
        The fleet fetches version {policyStep(orders.acting_step)} again, checks it against its manifest, and every worker takes it once
        more beside its rollouts. Nothing is lost and nobody waits; for those that lag it is another try.
      </p>
    </OrderForm>
  );
}
