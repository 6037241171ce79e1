import { useMute } from "@/api/queue";
import type { EnvironmentRow } from "@/api/types";
import { KEPT_IN_EVENTS } from "@/components/keptIn";
import { ReasonDialog } from "@/components/ReasonDialog";
import { visible } from "@/format";

type Props = { run: string; environment: EnvironmentRow; onClose: () => void };

/** Count what an environment pushes and train on none of it, or hear it again, with a reason. */
export function MuteDialog({ run, environment, onClose }: Props) {
  const mute = useMute(run);
  const isMuted = environment.muted;
  return (
    <ReasonDialog
      title={`${isMuted ? "Unmute" : "Mute"} ${visible(environment.wandb_name)}`}
      asking={mute}
      refused="The environment stays as it is"
      keptIn={KEPT_IN_EVENTS}
      submit={isMuted ? "Unmute" : "Mute"}
      onSubmit={(reason) => mute.mutate({ envId: environment.env_id, muted: !isMuted, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p className="soft">
        {isMuted
          ? "What it pushes from now on is queued and served again. What came in meanwhile stays dropped."
          : "What it pushes from now on is taken and counted as dropped (muted): its content is not kept, no trainer gets it, and no batch waits for it. It is not told, so it goes on working. What is queued of it already is still served."}
      </p>
    </ReasonDialog>
  );
}
