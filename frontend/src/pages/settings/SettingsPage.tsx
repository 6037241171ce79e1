import { Badge, Button, Group, PasswordInput, SegmentedControl, SimpleGrid, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ApiProblem } from "@/api/client";
import { deploymentQuery, sessionsQuery, useEndSessions } from "@/api/deployment";
import { useChangePassword, useSession } from "@/api/session";
import { ReasonDialog } from "@/components/Dialog";
import { Guarded, PageTitle, Panel } from "@/components/panels";
import { clock, counted, visible } from "@/format";
import { RetentionPanel } from "@/pages/settings/RetentionPanel";
import { Webhooks } from "@/pages/settings/Webhooks";
import { chooseZone, chosenZone, type TimeZone } from "@/preferences";

/** Appearance settings of this browser. */
function Appearance() {
  const [time, setTime] = useState(chosenZone);
  const change = (zone: string) => {
    chooseZone(zone as TimeZone);
    setTime(zone as TimeZone);
  };
  return (
    <Panel title="Appearance" note="stored in this browser">
      <Group justify="space-between">
        <div>
          <b>Time zone</b>
          <div className="soft small">
            Current time: <span data-clock>{clock(new Date().toISOString())}</span>. Tooltips always show UTC.
          </div>
        </div>
        <SegmentedControl
          aria-label="Time zone"
          value={time}
          data={[
            { value: "local", label: "Local" },
            { value: "utc", label: "UTC" },
          ]}
          onChange={change}
        />
      </Group>
    </Panel>
  );
}

/** Change the user's own password. */
function PasswordForm({ onClose }: { onClose: () => void }) {
  const change = useChangePassword();
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const fields = change.error instanceof ApiProblem ? change.error.fields : [];
  const wrong = (field: string) => fields.find((each) => each.field === field)?.message;
  return (
    <ReasonDialog
      title="Change password"
      asking={{ isPending: change.isPending, error: fields.length > 0 ? null : change.error }}
      refused="Password not changed"
      submit="Change password"
      recordedIn={null}
      onSubmit={() => change.mutate({ current_password: current, new_password: next }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <Stack>
        <PasswordInput
          label="Current password"
          autoComplete="current-password"
          required
          data-autofocus
          value={current}
          error={wrong("current_password")}
          onChange={(event) => setCurrent(event.currentTarget.value)}
        />
        <PasswordInput
          label="New password"
          description="Signs you out in other browsers. Tokens stay valid."
          autoComplete="new-password"
          required
          value={next}
          error={wrong("new_password")}
          onChange={(event) => setNext(event.currentTarget.value)}
        />
      </Stack>
    </ReasonDialog>
  );
}

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
      <p>
        <b>{visible(session?.username ?? "")}</b> <Badge>{session?.role}</Badge>
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
      <PageTitle title="Settings" />

      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <Stack>
          <Guarded>
            <Appearance />
            <Account />
          </Guarded>
        </Stack>
        <Stack>
          <Guarded>
            <Webhooks />
            <RetentionPanel />
          </Guarded>
        </Stack>
      </SimpleGrid>
    </>
  );
}
