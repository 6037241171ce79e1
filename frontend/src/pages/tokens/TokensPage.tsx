import { Alert, Button, Checkbox, Paper, Select, Space, Stack, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ApiProblem } from "@/api/client";
import { type Scope, tokensQuery, useCreateToken } from "@/api/deployment";
import { useMayAdminister, useMayOperate, useSession } from "@/api/session";
import { Dialog, DialogFoot, ReasonDialog } from "@/components/Dialog";
import { Command, EmptyState, Guarded, PageTitle, Panel, rememberToken, rolldeckCommand } from "@/components/panels";
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
  if (created) {
    return (
      <Dialog onClose={close} title="Token created" size="lg">
        <Stack>
          <Alert color="yellow">Copy the token now: it is shown only once, and only its hash is stored.</Alert>
          <div data-token>
            <Command text={created.token} />
          </div>
          <p className="soft small">Commands of this tab contain the token until you reload it.</p>
          <DialogFoot>
            <Button data-autofocus onClick={close}>
              Done
            </Button>
          </DialogFoot>
        </Stack>
      </Dialog>
    );
  }
  const request = {
    name,
    scopes: scopes as Scope[],
    run: run || null,
    expires_in_seconds: life ? Number(life) : null,
    networks: networks.split(/[\s,]+/).filter(Boolean),
  };
  return (
    <ReasonDialog
      title="Create token"
      size="lg"
      asking={{ isPending: create.isPending, error: fields.length > 0 ? null : create.error }}
      refused="Token not created"
      submit="Create token"
      recordedIn={null}
      isReady={scopes.length > 0}
      onSubmit={() => create.mutate(request)}
      onClose={close}
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
      </Stack>
    </ReasonDialog>
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
      <PageTitle title="API & tokens">
        <Space flex={1} />
        {mayCreate && <Button onClick={() => setCreating(true)}>Create token</Button>}
      </PageTitle>
      <Stack>
        <Guarded>
          {role && !mayCreate && (
            <Paper>
              <EmptyState title="Requires the operator role" command={CREATE} needs={{ scope: "user" }}>
                Operators create tokens for their runs.
              </EmptyState>
            </Paper>
          )}
          {mayCreate && (
            <Panel title={role === "admin" ? "Tokens" : "Your tokens"} note="secrets are not stored">
              <TokenTable
                tokens={tokens.data}
                error={tokens.error}
                empty={
                  <EmptyState title="No tokens yet" command={CREATE} needs={{ scope: "user" }}>
                    Trainers and environments on other machines send a token with each request.
                  </EmptyState>
                }
              />
            </Panel>
          )}
        </Guarded>
      </Stack>
      {isCreating && <CreateToken onClose={() => setCreating(false)} />}
    </>
  );
}
