import { Alert, Button, Checkbox, Group, Select, Stack, Tabs, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ApiProblem } from "@/api/client";
import { type Scope, tokensQuery, useCreateToken } from "@/api/deployment";
import { useMayAdminister, useMayOperate, useSession } from "@/api/session";
import { Dialog } from "@/components/Dialog";
import {
  Command,
  EmptyState,
  ErrorState,
  Guarded,
  Panel,
  rememberToken,
  rolldeckCommand,
  Skeletons,
  useMadeToken,
} from "@/components/panels";
import { quickStarts } from "@/components/quickStarts";
import { TokenTable } from "@/pages/tokens/TokenTable";
import { useCommands } from "@/shell/palette/commands";

const SCOPES: { scope: Scope; does: string }[] = [
  { scope: "env", does: "push groups" },
  { scope: "trainer", does: "lease batches, publish weights" },
  { scope: "worker", does: "report for a fleet" },
  { scope: "read", does: "read runs, alerts, the audit log and the cluster" },
  { scope: "user", does: "act with the owner's role" },
  { scope: "metrics", does: "read /metrics" },
  { scope: "admin", does: "everything" },
];
const OF_ADMINS: Scope[] = ["metrics", "admin"];
const LIVES = [
  { value: "86400", label: "1 day" },
  { value: String(30 * 86_400), label: "30 days" },
  { value: String(365 * 86_400), label: "1 year" },
  { value: "", label: "No expiry" },
];

/** Create a token; its text is shown once. */
function CreateToken({ onClose }: { onClose: () => void }) {
  const create = useCreateToken();
  const isAdmin = useMayAdminister();
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<string[]>(["env"]);
  const [run, setRun] = useState("");
  const [life, setLife] = useState<string>(String(30 * 86_400));
  const [networks, setNetworks] = useState("");
  const created = create.data;
  const fields = create.error instanceof ApiProblem ? create.error.fields : [];
  // Insert the token into commands only now: rerendering the page earlier would close this dialog.
  const close = () => {
    if (created) rememberToken(created);
    onClose();
  };
  const wrong = (field: string) => fields.find((each) => each.field === field)?.message;
  return (
    <Dialog onClose={close} title={created ? "Token created" : "Create token"} size="lg">
      {created ? (
        <Stack>
          <Alert variant="light" color="yellow">
            Copy the token now: it is shown only once, and only its hash is stored.
          </Alert>
          <div data-token>
            <Command text={created.token} />
          </div>
          <p className="soft small">Commands on this page contain the token until you leave or reload it.</p>
          <Group className="dialog-foot" justify="flex-end">
            <Button data-autofocus onClick={close}>
              Done
            </Button>
          </Group>
        </Stack>
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            create.mutate({
              name,
              scopes: scopes as Scope[],
              run: run || null,
              expires_in_seconds: life ? Number(life) : null,
              networks: networks.split(/[\s,]+/).filter(Boolean),
            });
          }}
        >
          <Stack>
            <TextInput
              label="Name"
              description="The person or service that uses the token."
              required
              data-autofocus
              value={name}
              error={wrong("name")}
              onChange={(event) => setName(event.currentTarget.value)}
            />
            <Checkbox.Group label="Scopes" value={scopes} onChange={setScopes} error={wrong("scopes")}>
              <Stack gap={6} mt={6}>
                {SCOPES.filter(({ scope }) => isAdmin || !OF_ADMINS.includes(scope)).map(({ scope, does }) => (
                  <Checkbox
                    key={scope}
                    value={scope}
                    label={
                      <>
                        <b>{scope}</b> <span className="soft">{does}</span>
                      </>
                    }
                  />
                ))}
              </Stack>
            </Checkbox.Group>
            <TextInput
              label="Run"
              description={
                isAdmin
                  ? "Restricts the token to one run; empty: all runs."
                  : "Restricts the token to one run: one of yours for env, trainer and worker; empty: all runs."
              }
              value={run}
              error={wrong("run")}
              onChange={(event) => setRun(event.currentTarget.value)}
            />
            <TextInput
              label="Addresses"
              description="Restricts the token to addresses or networks such as 10.0.0.0/8; empty: any address."
              spellCheck={false}
              value={networks}
              error={wrong("networks")}
              onChange={(event) => setNetworks(event.currentTarget.value)}
            />
            <Select label="Expires after" data={LIVES} value={life} allowDeselect={false} onChange={(value) => setLife(value ?? "")} />
            {create.isError && fields.length === 0 && <ErrorState title="Token not created" error={create.error} />}
            <Group className="dialog-foot" justify="flex-end">
              <Button variant="default" onClick={close}>
                Cancel
              </Button>
              <Button type="submit" loading={create.isPending} disabled={scopes.length === 0}>
                Create token
              </Button>
            </Group>
          </Stack>
        </form>
      )}
    </Dialog>
  );
}

/** The first lines of each kind of client, with the token created last in this tab. */
function QuickStarts() {
  const made = useMadeToken();
  const starts = quickStarts(location.origin, made?.token ?? null, made?.run ?? "my-run");
  return (
    <Panel title="Quick starts" note={made ? "with the last created token" : "create a token to insert it"}>
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
            <Command text={text} />
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
      <Stack>
        <Guarded>
          <QuickStarts />
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
      </Stack>
      {isCreating && <CreateToken onClose={() => setCreating(false)} />}
    </>
  );
}
