import { lazy, Suspense, useState } from "react";
import { useSession } from "@/api/session";
import { Command } from "@/components/Copying";
import { filled, type Needs, PLACE, useMadeToken } from "@/components/commandToken";

const CreateTokenForm = lazy(async () => ({ default: (await import("@/pages/tokens/CreateTokenForm")).CreateTokenForm }));

/** How to get the token that the command needs; administrators create it here. */
function TokenLine({ needs }: { needs: Needs }) {
  const isAdmin = useSession()?.role === "admin";
  const [isCreating, setCreating] = useState(false);
  return (
    <p className="command-token tiny faint">
      Requires a token with the scope {needs.scope}.{" "}
      {isAdmin ? (
        <button type="button" className="link-button" onClick={() => setCreating(true)}>
          Create one and insert it
        </button>
      ) : (
        "An administrator can create one."
      )}
      {isCreating && (
        <Suspense fallback={null}>
          <CreateTokenForm scope={needs.scope} run={needs.run} onClose={() => setCreating(false)} />
        </Suspense>
      )}
    </p>
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
