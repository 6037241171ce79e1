import { Button, Tabs } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useMayOperate, useSession } from "@/api/session";
import { tokensQuery } from "@/api/tokens";
import { Lines } from "@/components/Copying";
import { rolldeckCommand } from "@/components/commandToken";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { Guarded } from "@/components/Panels";
import { quickStarts } from "@/components/quickStarts";
import { Skeletons } from "@/components/Skeletons";
import { CreateTokenForm } from "@/pages/tokens/CreateTokenForm";
import { TokenTable } from "@/pages/tokens/TokenTable";
import { useCommands } from "@/shell/palette/commands";
import css from "./tokens.module.css";

function QuickStarts({ token, run }: { token: string | null; run: string }) {
  const starts = quickStarts(location.origin, token, run);
  return (
    <Panel title="Quick starts" note={token ? "with the last created token" : "create a token to insert it"}>
      <Tabs defaultValue="curl">
        <Tabs.List>
          {starts.map(({ id, title }) => (
            <Tabs.Tab key={id} value={id}>
              {title}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {starts.map(({ id, text, scopes }) => (
          <Tabs.Panel key={id} value={id}>
            <Lines text={text} />
            <span className="tiny faint">
              Token scopes: {scopes}. <a href="/docs">Full API reference</a>
            </span>
          </Tabs.Panel>
        ))}
      </Tabs>
    </Panel>
  );
}

const CREATE = rolldeckCommand("token create --name trainer --scope trainer");

export function TokensPage() {
  const role = useSession()?.role;
  const mayCreate = useMayOperate();
  const tokens = useQuery({ ...tokensQuery, enabled: mayCreate });
  const [isCreating, setCreating] = useState(false);
  const [created, setCreated] = useState<{ token: string; run: string | null } | null>(null);
  useCommands(
    mayCreate
      ? [{ id: "token:new", group: "This page", title: "Create token…", words: "mint secret key", act: () => setCreating(true) }]
      : [],
  );
  return (
    <>
      <div className="page-title">
        <h1>API &amp; tokens</h1>
        <span className="spacer" />
        {mayCreate && <Button onClick={() => setCreating(true)}>Create token</Button>}
      </div>
      <div className={css.page}>
        <Guarded>
          <QuickStarts token={created?.token ?? null} run={created?.run ?? "my-run"} />
          {role && !mayCreate && (
            <div className="panel">
              <EmptyState title="Requires the operator role" command={CREATE} needs={{ scope: "user" }}>
                Operators create tokens for their runs.
              </EmptyState>
            </div>
          )}
          {mayCreate && (
            <Panel title={role === "admin" ? "Tokens" : "Your tokens"} note="secrets are not stored">
              {tokens.isPending && <Skeletons heights={[120]} />}
              {tokens.isError && <ErrorState title="Tokens unavailable" error={tokens.error} />}
              {tokens.data?.length === 0 && (
                <EmptyState title="No tokens yet" command={CREATE} needs={{ scope: "user" }}>
                  Trainers and environments on other machines send a token with each request.
                </EmptyState>
              )}
              {tokens.data && tokens.data.length > 0 && <TokenTable tokens={tokens.data} />}
            </Panel>
          )}
        </Guarded>
      </div>
      {isCreating && <CreateTokenForm onClose={() => setCreating(false)} onCreated={({ token, run }) => setCreated({ token, run })} />}
    </>
  );
}
