import { Button } from "@mantine/core";
import { useState } from "react";
import { type KnownEnvironment, useJudgeEnvironment } from "@/api/environments";
import { useSession } from "@/api/session";
import { Age } from "@/components/Age";
import { KEPT_IN_AUDIT } from "@/components/keptIn";
import { ReasonDialog } from "@/components/ReasonDialog";
import { visible } from "@/format";

function Ask({ environment, onClose }: { environment: KnownEnvironment; onClose: () => void }) {
  const judge = useJudgeEnvironment();
  const isAllowed = environment.denied !== null;
  const name = visible(environment.name);
  return (
    <ReasonDialog
      title={isAllowed ? `Allow ${name} again?` : `Deny ${name} to new runs?`}
      asking={judge}
      refused="It was not changed"
      submit={isAllowed ? "Allow it" : "Deny it"}
      keptIn={isAllowed ? KEPT_IN_AUDIT : "Whoever asks for it is told; kept with your name in the audit."}
      destroys={!isAllowed}
      onSubmit={(reason) => judge.mutate({ spec: environment.name, is_allowed: isAllowed, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p className="small">
        {isAllowed ? "New runs may ask for it from now on." : "No new run may ask for it, by whatever way. Runs that have it go on."}
      </p>
    </ReasonDialog>
  );
}

/** Whether new runs may ask for it, and the administrator's way to decide so. */
export function Verdict({ environment }: { environment: KnownEnvironment }) {
  const isAdmin = useSession()?.role === "admin";
  const [isOpen, setOpen] = useState(false);
  if (environment.kind === "outside" || !environment.registered) return null;
  const { denied } = environment;
  return (
    <div data-denied={denied ? "denied" : "allowed"}>
      {denied && (
        <p className="held small">
          ▲ Denied to new runs by {visible(denied.denied_by)} <Age at={denied.denied_at} suffix=" ago" />: {visible(denied.reason)}
        </p>
      )}
      <Button
        size="compact-sm"
        variant="default"
        disabled={!isAdmin}
        title={isAdmin ? undefined : "Administrators decide this"}
        onClick={() => setOpen(true)}
      >
        {denied ? "Allow it again…" : "Deny it to new runs…"}
      </Button>
      {isOpen && <Ask environment={environment} onClose={() => setOpen(false)} />}
    </div>
  );
}
