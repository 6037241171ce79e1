import { useConnect } from "@/api/queue";
import type { EnvironmentRow } from "@/api/types";
import { ReasonDialog } from "@/components/ReasonDialog";
import { visible } from "@/format";

type Props = { run: string; environment: EnvironmentRow; onClose: () => void };

/** Count an environment as gone, or as there again, with a reason. */
export function ConnectDialog({ run, environment, onClose }: Props) {
  const connect = useConnect(run);
  const isThere = environment.connected;
  return (
    <ReasonDialog
      title={`${isThere ? "Disconnect" : "Reconnect"} ${visible(environment.wandb_name)}`}
      asking={connect}
      refused="The environment stays as it is"
      submit={isThere ? "Disconnect" : "Reconnect"}
      onSubmit={(reason) => connect.mutate({ envId: environment.env_id, connected: !isThere, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p className="soft">
        {isThere
          ? "No batch waits for it any more, and its share of the queue goes to the others. What is queued of it is still served; what it pushes later is still taken."
          : "It has its share and its least part of a batch again, from the next batch on."}
      </p>
    </ReasonDialog>
  );
}
