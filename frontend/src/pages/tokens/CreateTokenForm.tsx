import { Alert, Button, Checkbox, Group, Select, Stack, TextInput } from "@mantine/core";
import { useState } from "react";
import { ApiProblem } from "@/api/problems";
import { useMayAdminister } from "@/api/session";
import { type CreatedToken, type Scope, useCreateToken } from "@/api/tokens";
import { Copy } from "@/components/Copying";
import { rememberToken } from "@/components/commandToken";
import { Dialog } from "@/components/Dialog";
import { ErrorState } from "@/components/ErrorState";

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

type Props = {
  /** Initial scope, if the purpose of the token is known. */
  scope?: Scope;
  run?: string;
  onClose: () => void;
  onCreated?: (token: CreatedToken) => void;
};

/** Create a token; its text is shown once. */
export function CreateTokenForm({ scope = "env", run: wanted = "", onClose, onCreated }: Props) {
  const create = useCreateToken();
  const isAdmin = useMayAdminister();
  const [name, setName] = useState(wanted && `${scope} of ${wanted}`);
  const [scopes, setScopes] = useState<string[]>([scope]);
  const [run, setRun] = useState(wanted);
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
          <div className="command">
            <code data-token>{created.token}</code>
            <Copy text={created.token} />
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
            create.mutate(
              {
                name,
                scopes: scopes as Scope[],
                run: run || null,
                expires_in_seconds: life ? Number(life) : null,
                networks: networks.split(/[\s,]+/).filter(Boolean),
              },
              { onSuccess: onCreated },
            );
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
