import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type BrowserRow, browsersQuery, useEndSessions } from "@/api/deployment";
import { Age } from "@/components/Age";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { ReasonDialog } from "@/components/ReasonDialog";
import { Skeletons } from "@/components/Skeletons";
import { visible } from "@/format";
import { browserName } from "@/pages/settings/browsers";

type Ending = { id: string | null; name: string };

function Confirm({ ending, onClose }: { ending: Ending; onClose: () => void }) {
  const end = useEndSessions();
  return (
    <ReasonDialog
      title={`Sign out: ${ending.name}?`}
      asking={end}
      refused="Sign-out failed"
      submit="Sign out"
      destroys
      onSubmit={(reason) => end.mutate({ browser: ending.id, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p className="soft">This browser must sign in again. Tokens are not affected.</p>
    </ReasonDialog>
  );
}

function Row({ row, onEnd }: { row: BrowserRow; onEnd: () => void }) {
  const name = browserName(row.browser);
  return (
    <tr data-browser={row.is_current ? "this" : "other"}>
      <td className="anywhere">
        <span title={visible(row.browser)}>{visible(name)}</span>
        {row.address && <div className="faint small">from {visible(row.address)}</div>}
      </td>
      <td className="soft nowrap wide-only">
        {row.signed_in_at ? (
          <>
            signed in <Age at={row.signed_in_at} suffix=" ago" />
          </>
        ) : (
          "–"
        )}
      </td>
      <td className="num">
        {row.is_current ? (
          <span className="tag">current</span>
        ) : (
          <Button size="compact-sm" variant="default" aria-label={`Sign out ${name}`} onClick={onEnd}>
            Sign out
          </Button>
        )}
      </td>
    </tr>
  );
}

/** The user's sessions, with a sign-out action for each. */
export function Browsers() {
  const { data, error } = useQuery(browsersQuery);
  const [ending, setEnding] = useState<Ending | null>(null);
  const others = data?.filter(({ is_current }) => !is_current) ?? [];
  return (
    <Panel
      title="Sessions"
      aside={
        others.length > 1 && (
          <Button size="compact-sm" variant="default" onClick={() => setEnding({ id: null, name: "all other browsers" })}>
            Sign out everywhere else
          </Button>
        )
      }
    >
      {error && <ErrorState title="Sessions unavailable" error={error} />}
      {!data && !error && <Skeletons heights={[60]} />}
      {data && (
        <div className="table-scroll">
          <table className="table" aria-label="Sessions">
            <tbody>
              {data.map((row) => (
                <Row key={row.id} row={row} onEnd={() => setEnding({ id: row.id, name: browserName(row.browser) })} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {ending && <Confirm ending={ending} onClose={() => setEnding(null)} />}
    </Panel>
  );
}
