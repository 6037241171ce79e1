import { Alert, Button, Checkbox, Group, Select, Stack, TextInput } from "@mantine/core";
import { useState } from "react";
import { ApiProblem } from "@/api/problems";
import { type Scope, type TokenMinted, useMint } from "@/api/tokens";
import { Copy } from "@/components/Copying";
import { keepToken } from "@/components/commandToken";
import { Dialog } from "@/components/Dialog";
import { ErrorState } from "@/components/ErrorState";

const SCOPES: { scope: Scope; does: string }[] = [
  { scope: "env", does: "pushes groups" },
  { scope: "trainer", does: "takes batches, publishes weights" },
  { scope: "worker", does: "reports for a fleet" },
  { scope: "read", does: "reads runs, alerts, the audit and the cluster" },
  { scope: "user", does: "has its owner's role" },
  { scope: "metrics", does: "reads /metrics" },
  { scope: "admin", does: "everything" },
];
const LIVES = [
  { value: "86400", label: "1 day" },
  { value: String(30 * 86_400), label: "30 days" },
  { value: String(365 * 86_400), label: "1 year" },
  { value: "", label: "For ever" },
];

type Props = {
  /** What the form begins with, where it is known what the token is for. */
  scope?: Scope;
  run?: string;
  onClose: () => void;
  onMinted?: (token: TokenMinted) => void;
};

/** Mints a token; its text is shown this once. */
export function MintForm({ scope = "env", run: wanted = "", onClose, onMinted }: Props) {
  const mint = useMint();
  const [name, setName] = useState(wanted && `${scope} of ${wanted}`);
  const [scopes, setScopes] = useState<string[]>([scope]);
  const [run, setRun] = useState(wanted);
  const [life, setLife] = useState<string>(String(30 * 86_400));
  const [networks, setNetworks] = useState("");
  const minted = mint.data;
  const fields = mint.error instanceof ApiProblem ? mint.error.fields : [];
  // Only now do commands change: the page below shall not pull this dialog away from under the reader.
  const close = () => {
    if (minted) keepToken(minted);
    onClose();
  };
  const wrong = (field: string) => fields.find((each) => each.field === field)?.message;
  return (
    <Dialog onClose={close} title={minted ? "This is the token" : "Create a token"} size="lg">
      {minted ? (
        <Stack>
          <Alert variant="light" color="yellow">
            It is shown this once: copy it now. Only its hash is kept.
          </Alert>
          <div className="command">
            <code data-token>{minted.token}</code>
            <Copy text={minted.token} />
          </div>
          <p className="soft small">Commands that need it hold it until this page is left or loaded anew.</p>
          <Group justify="flex-end">
            <Button data-autofocus onClick={close}>
              Done
            </Button>
          </Group>
        </Stack>
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            mint.mutate(
              {
                name,
                scopes: scopes as Scope[],
                run: run || null,
                expires_in_seconds: life ? Number(life) : null,
                networks: networks.split(/[\s,]+/).filter(Boolean),
              },
              { onSuccess: onMinted },
            );
          }}
        >
          <Stack>
            <TextInput
              label="Name"
              description="Who or what shows it."
              required
              data-autofocus
              value={name}
              error={wrong("name")}
              onChange={(event) => setName(event.currentTarget.value)}
            />
            <Checkbox.Group label="Scopes" value={scopes} onChange={setScopes} error={wrong("scopes")}>
              <Stack gap={6} mt={6}>
                {SCOPES.map(({ scope, does }) => (
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
              description="Good for this run alone; empty for all."
              value={run}
              error={wrong("run")}
              onChange={(event) => setRun(event.currentTarget.value)}
            />
            <TextInput
              label="Addresses"
              description="Good from these alone: addresses or networks such as 10.0.0.0/8; empty for all."
              spellCheck={false}
              value={networks}
              error={wrong("networks")}
              onChange={(event) => setNetworks(event.currentTarget.value)}
            />
            <Select label="Good for" data={LIVES} value={life} allowDeselect={false} onChange={(value) => setLife(value ?? "")} />
            {mint.isError && fields.length === 0 && <ErrorState title="The token was not created" error={mint.error} />}
            <Group justify="flex-end">
              <Button variant="default" onClick={close}>
                Cancel
              </Button>
              <Button type="submit" loading={mint.isPending} disabled={scopes.length === 0}>
                Create the token
              </Button>
            </Group>
          </Stack>
        </form>
      )}
    </Dialog>
  );
}
