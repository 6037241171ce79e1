import { Badge, Button, VisuallyHidden } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { type TokenRow, useRevoke } from "@/api/deployment";
import { Chip } from "@/components/chips";
import { type Column, DataTable } from "@/components/DataTable";
import { ReasonDialog } from "@/components/Dialog";
import { Age, Moment, useNow } from "@/components/inline";
import { visible } from "@/format";

type Standing = { word: string; tone: string; sign: string };
type Shown = TokenRow & { standing: Standing };

/** The state of a token as a label with colour and symbol. */
function standing(token: Pick<TokenRow, "revoked_at" | "expires_at" | "suspended" | "scopes">, nowMs: number): Standing {
  if (token.revoked_at) return { word: "revoked", tone: "quiet", sign: "✕" };
  if (token.expires_at && Date.parse(token.expires_at) <= nowMs) return { word: "expired", tone: "held", sign: "◷" };
  if (token.suspended.length === token.scopes.length) return { word: "suspended", tone: "held", sign: "‖" };
  return { word: "active", tone: "good", sign: "✓" };
}

const COLUMNS: Column<Shown>[] = [
  {
    id: "name",
    label: "Token",
    value: (token) => token.name,
    cell: (token) => (
      <>
        <b className="anywhere">{visible(token.name)}</b>
        <div className="mono tiny faint">{token.prefix}…</div>
      </>
    ),
  },
  {
    id: "state",
    label: "State",
    value: ({ standing: { word } }) => word,
    cell: ({ standing: { tone, sign, word } }) => (
      <Chip tone={tone} sign={sign}>
        {word}
      </Chip>
    ),
  },
  {
    id: "scopes",
    label: "Scopes",
    cell: ({ scopes, suspended }) => (
      <>
        {scopes.map((scope) => (
          <Badge key={scope}>{scope}</Badge>
        ))}
        {suspended.length > 0 && <div className="tiny faint">{suspended.join(", ")} suspended: exceeds the owner's role</div>}
      </>
    ),
  },
  {
    id: "run",
    label: "Run",
    className: "mantine-visible-from-sm soft",
    value: ({ run }) => run,
    cell: ({ run, networks }) => (
      <>
        {run ?? "all"}
        {networks.length > 0 && (
          <div className="mono tiny anywhere" title="Restricted to these addresses">
            from {networks.map(visible).join(", ")}
          </div>
        )}
      </>
    ),
  },
  {
    id: "expires",
    label: "Expires",
    className: "mantine-visible-from-sm soft",
    value: (token) => token.expires_at,
    cell: (token) => (token.expires_at ? <Moment at={token.expires_at} /> : "never"),
  },
  {
    id: "used",
    label: "Last used",
    className: "mantine-visible-from-sm soft",
    value: (token) => token.last_used_at,
    cell: (token) => (token.last_used_at ? <Age at={token.last_used_at} suffix=" ago" /> : "never"),
  },
  {
    id: "created",
    label: "Created",
    className: "mantine-visible-from-sm soft",
    value: (token) => token.created_at,
    cell: (token) => (
      <>
        <Age at={token.created_at} suffix=" ago" />
        {token.created_by && ` by ${visible(token.created_by)}`}
      </>
    ),
  },
];

type Props = { tokens: TokenRow[] | undefined; error: Error | null; empty: ReactNode };

export function TokenTable({ tokens, error, empty }: Props) {
  const now = useNow();
  const revoke = useRevoke();
  const [asked, setAsked] = useState<TokenRow | null>(null);
  const rows = tokens?.map((token): Shown => ({ ...token, standing: standing(token, now) }));
  const revokes: Column<Shown> = {
    id: "revoke",
    label: <VisuallyHidden>Revoke</VisuallyHidden>,
    isNumber: true,
    cell: (token) =>
      token.standing.word !== "revoked" && (
        <Button size="compact-xs" variant="default" aria-label={`Revoke ${token.name}`} onClick={() => setAsked(token)}>
          Revoke
        </Button>
      ),
  };
  return (
    <>
      <DataTable
        label="Tokens"
        rows={rows}
        error={error}
        empty={empty}
        columns={[...COLUMNS, revokes]}
        keyOf={({ id }) => id}
        attributes={() => ({ "data-row": true })}
      />
      {asked && (
        <ReasonDialog
          title={`Revoke ${visible(asked.name)}?`}
          asking={revoke}
          refused="Token not revoked"
          submit="Revoke"
          destroys
          onSubmit={(reason) => revoke.mutate({ token: asked.id, reason }, { onSuccess: () => setAsked(null) })}
          onClose={() => setAsked(null)}
        >
          <p className="soft">Requests with this token are refused immediately. This cannot be undone.</p>
        </ReasonDialog>
      )}
    </>
  );
}
