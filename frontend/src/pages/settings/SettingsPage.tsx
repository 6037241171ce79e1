import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { deploymentQuery, sessionsQuery, useEndSessions } from "@/api/deployment";
import { useSession } from "@/api/session";
import { Panel } from "@/components/Panel";
import { Guarded } from "@/components/Panels";
import { ReasonDialog } from "@/components/ReasonDialog";
import { counted, visible } from "@/format";
import { Appearance } from "@/pages/settings/Appearance";
import { PasswordForm } from "@/pages/settings/PasswordForm";
import { RetentionPanel } from "@/pages/settings/RetentionPanel";
import { Webhooks } from "@/pages/settings/Webhooks";
import css from "./settings.module.css";

const ROLES: Record<string, string> = {
  viewer: "Can view everything, but change nothing.",
  operator: "Can launch, change and stop runs.",
  admin: "Full access, including tokens and the Django admin.",
};

/** The user, the password, and the sessions of other browsers. */
function Account() {
  const session = useSession();
  const server = useQuery(deploymentQuery).data;
  const sessions = useQuery(sessionsQuery).data ?? 1;
  const end = useEndSessions();
  const [isEnding, setEnding] = useState(false);
  const [isChanging, setChanging] = useState(false);
  const close = () => setEnding(false);
  return (
    <Panel title="Account" note={server && `Rolldeck ${server.version}`}>
      <p className={css.line}>
        <b>{visible(session?.username ?? "")}</b> <span className="tag">{session?.role}</span>
      </p>
      <p className="soft small">{ROLES[session?.role ?? ""]}</p>
      <p className="small">
        {server?.has_password ? (
          <Button size="compact-sm" variant="default" onClick={() => setChanging(true)}>
            Change password
          </Button>
        ) : (
          <span className="soft">You have no password. An administrator can set one in the Django admin.</span>
        )}
      </p>
      <p className="small" data-sessions={sessions}>
        Signed in on {counted(sessions, "browser")}.{" "}
        {sessions > 1 && (
          <Button size="compact-sm" variant="default" onClick={() => setEnding(true)}>
            Sign out everywhere else
          </Button>
        )}
      </p>
      {isChanging && <PasswordForm onClose={() => setChanging(false)} />}
      {isEnding && (
        <ReasonDialog
          title="Sign out everywhere else?"
          asking={end}
          refused="Sign-out failed"
          submit="Sign out"
          destroys
          onSubmit={(reason) => end.mutate(reason, { onSuccess: close })}
          onClose={close}
        >
          <p className="soft">Your other browsers must sign in again. Tokens are not affected.</p>
        </ReasonDialog>
      )}
    </Panel>
  );
}

export function SettingsPage() {
  return (
    <>
      <div className="page-title">
        <h1>Settings</h1>
      </div>
      <div className={css.page}>
        <div className={css.column}>
          <Guarded>
            <Appearance />
            <Account />
          </Guarded>
        </div>
        <div className={css.column}>
          <Guarded>
            <Webhooks />
            <RetentionPanel />
          </Guarded>
        </div>
      </div>
    </>
  );
}
