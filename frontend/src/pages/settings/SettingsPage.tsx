import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { deckQuery } from "@/api/deck";
import { useSession } from "@/api/session";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { Skeletons } from "@/components/Skeletons";
import { visible } from "@/format";
import { Browsers } from "@/pages/settings/Browsers";
import { KeptPanel } from "@/pages/settings/KeptPanel";
import { Licences } from "@/pages/settings/Licences";
import { Look } from "@/pages/settings/Look";
import { Webhooks } from "@/pages/settings/Webhooks";
import css from "./settings.module.css";

const ROLES: Record<string, string> = {
  viewer: "You may look at everything, and change nothing.",
  operator: "You may launch runs, steer and end them.",
  admin: "You may do everything, tokens and the admin included.",
};

function Person() {
  const session = useSession();
  const { data } = useQuery(deckQuery);
  return (
    <Panel title="You">
      <p className={css.line}>
        <b>{visible(session?.username ?? "")}</b> <span className="tag">{session?.role}</span>
      </p>
      <p className="soft small">{ROLES[session?.role ?? ""]}</p>
      <p className="small">
        {data?.password_address ? (
          <a href={data.password_address}>Change your password</a>
        ) : (
          <span className="soft">An administrator changes your password, in the admin.</span>
        )}
      </p>
    </Panel>
  );
}

function Facts() {
  const { data, error } = useQuery(deckQuery);
  if (error) return <ErrorState title="The deck does not say which one it is" error={error} />;
  if (!data) return <Skeletons heights={[120]} />;
  const facts: [string, string][] = [
    ["Version", data.version || "not installed as a package"],
    ["Name", data.deployment || "none; ROLLDECK_DEPLOYMENT gives it one"],
    ["Address", location.origin],
    ["Atropos routes", data.auth === "open" ? "open to this machine, tokens from elsewhere" : "need a token from anywhere"],
  ];
  return (
    <Panel
      title="This deck"
      aside={
        <Button component={Link} to="/cluster" size="compact-sm" variant="default">
          What it is made of
        </Button>
      }
    >
      <dl className={css.facts}>
        {facts.map(([term, value]) => (
          <div key={term}>
            <dt>{term}</dt>
            <dd>{visible(value)}</dd>
          </div>
        ))}
      </dl>
      <Licences />
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
          <Look />
          <Person />
          <Facts />
        </div>
        <div className={css.column}>
          <Browsers />
          <Webhooks />
          <KeptPanel />
        </div>
      </div>
    </>
  );
}
