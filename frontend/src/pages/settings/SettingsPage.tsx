import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { deploymentQuery } from "@/api/deployment";
import { useSession } from "@/api/session";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { Guarded } from "@/components/Panels";
import { Skeletons } from "@/components/Skeletons";
import { visible } from "@/format";
import { Appearance } from "@/pages/settings/Appearance";
import { Browsers } from "@/pages/settings/Browsers";
import { RetentionPanel } from "@/pages/settings/RetentionPanel";
import { Webhooks } from "@/pages/settings/Webhooks";
import css from "./settings.module.css";

const ROLES: Record<string, string> = {
  viewer: "Can view everything, but change nothing.",
  operator: "Can launch, change and stop runs.",
  admin: "Full access, including tokens and the Django admin.",
};

function Person() {
  const session = useSession();
  const { data } = useQuery(deploymentQuery);
  return (
    <Panel title="Account">
      <p className={css.line}>
        <b>{visible(session?.username ?? "")}</b> <span className="tag">{session?.role}</span>
      </p>
      <p className="soft small">{ROLES[session?.role ?? ""]}</p>
      <p className="small">
        {data?.password_address ? (
          <a href={data.password_address}>Change password</a>
        ) : (
          <span className="soft">An administrator can change your password in the Django admin.</span>
        )}
      </p>
    </Panel>
  );
}

function Facts() {
  const { data, error } = useQuery(deploymentQuery);
  if (error && !data) return <ErrorState title="Server details unavailable" error={error} />;
  if (!data) return <Skeletons heights={[120]} />;
  const facts: [string, string][] = [
    ["Version", data.version || "not installed as a package"],
    ["Name", data.deployment || "none; set ROLLDECK_DEPLOYMENT"],
    ["Address", location.origin],
    ["Atropos routes", data.auth === "open" ? "open to this machine, tokens required from elsewhere" : "tokens required from everywhere"],
  ];
  return (
    <Panel
      title="Server"
      aside={
        <Button component={Link} to="/cluster" size="compact-sm" variant="default">
          View cluster
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
            <Person />
            <Facts />
          </Guarded>
        </div>
        <div className={css.column}>
          <Guarded>
            <Browsers />
            <Webhooks />
            <RetentionPanel />
          </Guarded>
        </div>
      </div>
    </>
  );
}
