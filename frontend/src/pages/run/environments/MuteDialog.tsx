import { useMute } from "@/api/queue";
import type { EnvironmentRow } from "@/api/types";
import { ReasonDialog } from "@/components/ReasonDialog";
import { RECORDED_IN_EVENTS } from "@/components/recordedIn";
import { visible } from "@/format";

type Props = { run: string; environment: EnvironmentRow; onClose: () => void };

/** Mute or unmute an environment, with a reason. */
export function MuteDialog({ run, environment, onClose }: Props) {
  const mute = useMute(run);
  const isMuted = environment.muted;
  return (
    <ReasonDialog
      title={`${isMuted ? "Unmute" : "Mute"} ${visible(environment.wandb_name)}`}
      asking={mute}
      refused="Environment not changed"
      recordedIn={RECORDED_IN_EVENTS}
      submit={isMuted ? "Unmute" : "Mute"}
      onSubmit={(reason) => mute.mutate({ envId: environment.env_id, muted: !isMuted, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p className="soft">
        {isMuted
          ? "New pushes are queued and served again. Groups dropped while muted stay dropped."
          : "New pushes are accepted and counted as dropped (muted): their content is not stored, no trainer receives it, and no batch waits for it. The environment is not notified and keeps working. Its queued groups are still served."}
      </p>
    </ReasonDialog>
  );
}
