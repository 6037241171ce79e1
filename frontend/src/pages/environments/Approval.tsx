import { Button } from "@mantine/core";
import { useState } from "react";
import { useSession } from "@/api/session";
import { Age } from "@/components/Age";
import { ReasonDialog } from "@/components/ReasonDialog";
import { RECORDED_IN_AUDIT } from "@/components/recordedIn";
import { visible } from "@/format";
import { type KnownEnvironment, useJudgeEnvironment } from "@/pages/environments/api";

function Ask({ environment, onClose }: { environment: KnownEnvironment; onClose: () => void }) {
  const judge = useJudgeEnvironment();
  const isAllowed = environment.denied !== null;
  const name = visible(environment.name);
  return (
    <ReasonDialog
      title={isAllowed ? `Allow ${name}?` : `Deny ${name} for new runs?`}
      asking={judge}
      refused="Environment not changed"
      submit={isAllowed ? "Allow" : "Deny"}
      recordedIn={isAllowed ? RECORDED_IN_AUDIT : "Shown in the error of refused launches, and recorded with your name in the audit log."}
      destroys={!isAllowed}
      onSubmit={(reason) => judge.mutate({ spec: environment.name, is_allowed: isAllowed, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p className="small">
        {isAllowed ? "New runs can use this environment." : "New runs cannot use this environment. Existing runs continue."}
      </p>
    </ReasonDialog>
  );
}

/** Whether new runs may use the environment, and the administrator's control for it. */
export function Approval({ environment }: { environment: KnownEnvironment }) {
  const isAdmin = useSession()?.role === "admin";
  const [isOpen, setOpen] = useState(false);
  if (environment.kind === "outside" || !environment.registered) return null;
  const { denied } = environment;
  return (
    <div data-denied={denied ? "denied" : "allowed"}>
      {denied && (
        <p className="held small">
          ▲ Denied for new runs by {visible(denied.denied_by)} <Age at={denied.denied_at} suffix=" ago" />: {visible(denied.reason)}
        </p>
      )}
      <Button
        size="compact-sm"
        variant="default"
        disabled={!isAdmin}
        title={isAdmin ? undefined : "Requires the administrator role."}
        onClick={() => setOpen(true)}
      >
        {denied ? "Allow…" : "Deny…"}
      </Button>
      {isOpen && <Ask environment={environment} onClose={() => setOpen(false)} />}
    </div>
  );
}
