import { useConnect } from "@/api/queue";
import type { EnvironmentRow } from "@/api/types";
import { ReasonDialog } from "@/components/ReasonDialog";
import { visible } from "@/format";

type Props = { run: string; environment: EnvironmentRow; onClose: () => void };

/** Disconnect or reconnect an environment, with a reason. */
export function ConnectDialog({ run, environment, onClose }: Props) {
  const connect = useConnect(run);
  const isThere = environment.connected;
  return (
    <ReasonDialog
      title={`${isThere ? "Disconnect" : "Reconnect"} ${visible(environment.wandb_name)}`}
      asking={connect}
      refused="Environment not changed"
      submit={isThere ? "Disconnect" : "Reconnect"}
      onSubmit={(reason) => connect.mutate({ envId: environment.env_id, connected: !isThere, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p className="soft">
        {isThere
          ? "Batches no longer wait for it, and the other environments get its share. Its queued groups are still served, and new pushes are still accepted."
          : "Its share and minimum allocation apply again from the next batch."}
      </p>
    </ReasonDialog>
  );
}
