import { lazy, Suspense, useState } from "react";
import { useSession } from "@/api/session";
import { Command } from "@/components/Copying";
import { filled, type Needs, PLACE, useMadeToken } from "@/components/commandToken";

const MintForm = lazy(async () => ({ default: (await import("@/pages/tokens/MintForm")).MintForm }));

/** The way to a token that the command asks for: made here by those who may. */
function TokenLine({ needs }: { needs: Needs }) {
  const isAdmin = useSession()?.role === "admin";
  const [isMinting, setMinting] = useState(false);
  return (
    <p className="command-token tiny faint">
      Needs a token with the scope {needs.scope}.{" "}
      {isAdmin ? (
        <button type="button" className="link-button" onClick={() => setMinting(true)}>
          Make one and fill it in
        </button>
      ) : (
        "An administrator makes one."
      )}
      {isMinting && (
        <Suspense fallback={null}>
          <MintForm scope={needs.scope} run={needs.run} onClose={() => setMinting(false)} />
        </Suspense>
      )}
    </p>
  );
}

/** What to type, exactly; with the token in it once there is one. */
export function TokenCommand({ command, needs }: { command: string; needs?: Needs }) {
  const text = filled(command, needs, useMadeToken());
  return (
    <>
      <Command text={text} />
      {needs && text.includes(PLACE) && <TokenLine needs={needs} />}
    </>
  );
}
