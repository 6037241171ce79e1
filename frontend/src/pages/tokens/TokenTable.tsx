import { Button } from "@mantine/core";
import { useState } from "react";
import { type TokenRow, useRevoke } from "@/api/tokens";
import { Age } from "@/components/Age";
import { Chip } from "@/components/Chip";
import { Moment } from "@/components/Moment";
import { useNow } from "@/components/now";
import { ReasonDialog } from "@/components/ReasonDialog";
import { Table } from "@/components/Table";
import { visible } from "@/format";

/** The state of a token as a label with colour and symbol. */
function standing(
  token: Pick<TokenRow, "revoked_at" | "expires_at" | "suspended" | "scopes">,
  nowMs: number,
): { word: string; tone: string; sign: string } {
  if (token.revoked_at) return { word: "revoked", tone: "quiet", sign: "✕" };
  if (token.expires_at && Date.parse(token.expires_at) <= nowMs) return { word: "expired", tone: "held", sign: "◷" };
  if (token.suspended.length === token.scopes.length) return { word: "suspended", tone: "held", sign: "‖" };
  return { word: "active", tone: "good", sign: "✓" };
}

export function TokenTable({ tokens }: { tokens: TokenRow[] }) {
  const now = useNow();
  const revoke = useRevoke();
  const [asked, setAsked] = useState<TokenRow | null>(null);
  return (
    <>
      {" "}
      <Table
        columns={[
          "Token",
          "State",
          "Scopes",
          { label: "Run", className: "wide-only" },
          { label: "Expires", className: "wide-only" },
          { label: "Last used", className: "wide-only" },
          { label: "Created", className: "wide-only" },
          { label: <span className="unseen">Revoke</span> },
        ]}
      >
        {tokens.map((token) => {
          const { word, tone, sign } = standing(token, now);
          return (
            <tr key={token.id} data-row>
              <td>
                <b className="anywhere">{visible(token.name)}</b>
                <div className="mono tiny faint">{token.prefix}…</div>
              </td>
              <td>
                <Chip tone={tone} sign={sign}>
                  {word}
                </Chip>
              </td>
              <td>
                {token.scopes.map((scope) => (
                  <span key={scope} className="tag">
                    {scope}
                  </span>
                ))}
                {token.suspended.length > 0 && (
                  <div className="tiny faint">{token.suspended.join(", ")} suspended: exceeds the owner's role</div>
                )}
              </td>
              <td className="wide-only soft">
                {token.run ?? "all"}
                {token.networks.length > 0 && (
                  <div className="mono tiny anywhere" title="Restricted to these addresses">
                    from {token.networks.map(visible).join(", ")}
                  </div>
                )}
              </td>
              <td className="wide-only soft">{token.expires_at ? <Moment at={token.expires_at} /> : "never"}</td>
              <td className="wide-only soft">{token.last_used_at ? <Age at={token.last_used_at} suffix=" ago" /> : "never"}</td>
              <td className="wide-only soft">
                <Age at={token.created_at} suffix=" ago" />
                {token.created_by && ` by ${visible(token.created_by)}`}
              </td>
              <td className="num">
                {word !== "revoked" && (
                  <Button size="compact-xs" variant="default" aria-label={`Revoke ${token.name}`} onClick={() => setAsked(token)}>
                    Revoke
                  </Button>
                )}
              </td>
            </tr>
          );
        })}
      </Table>
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
