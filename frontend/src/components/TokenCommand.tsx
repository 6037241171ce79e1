import { useSession } from "@/api/session";
import { useCreateToken } from "@/api/tokens";
import { Command } from "@/components/Copying";
import { filled, type Needs, PLACE, rememberToken, useMadeToken } from "@/components/commandToken";
import { ErrorState } from "@/components/ErrorState";

const TOKEN_SECONDS = 30 * 86_400;

/** A button that creates the token that the command needs, and inserts it. */
function TokenLine({ needs }: { needs: Needs }) {
  const isAdmin = useSession()?.role === "admin";
  const create = useCreateToken();
  const request = {
    name: needs.run ? `${needs.scope} of ${needs.run}` : needs.scope,
    scopes: [needs.scope],
    run: needs.run ?? null,
    expires_in_seconds: TOKEN_SECONDS,
    networks: [],
  };
  return (
    <div className="tiny faint">
      Requires a token with the scope {needs.scope}.{" "}
      {isAdmin ? (
        <button
          type="button"
          className="link-button"
          disabled={create.isPending}
          onClick={() => create.mutate(request, { onSuccess: rememberToken })}
        >
          Create one for 30 days and insert it
        </button>
      ) : (
        "An administrator can create one."
      )}
      {create.isError && <ErrorState title="Token not created" error={create.error} />}
    </div>
  );
}

/** A command to copy, with the token inserted once there is one. */
export function TokenCommand({ command, needs }: { command: string; needs?: Needs }) {
  const text = filled(command, needs, useMadeToken());
  return (
    <>
      <Command text={text} />
      {needs && text.includes(PLACE) && <TokenLine needs={needs} />}
    </>
  );
}
