import { SegmentedControl, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type CallRow, type ClientRow, callsQuery, clientsQuery, type Only } from "@/api/tokens";
import { Age } from "@/components/Age";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { number, visible } from "@/format";
import css from "./tokens.module.css";

type Props = { client: string; only: Only; onLook: (client: string, only: Only) => void };

const nameOf = (client: ClientRow) => client.name || client.client.replace(/^address:/, "");

function Said({ call }: { call: CallRow }) {
  if (call.replayed) return <span>Repeated: same response as the original call, not stored twice.</span>;
  const problem = call.problem as { code?: string; detail?: string; errors?: { field: string; message: string }[] };
  if (!problem.code && !problem.detail) {
    return <span className="faint">{call.stands_for > 1 ? `slowest of ${number(call.stands_for)} similar calls` : ""}</span>;
  }
  return (
    <div className="anywhere">
      {(problem.errors ?? []).length === 0 && <span>{visible(problem.detail ?? "")}</span>}
      {(problem.errors ?? []).map((each) => (
        <div key={each.field + each.message}>
          <code className={css.path}>{visible(each.field)}</code> {visible(each.message.replace(`${each.field}: `, ""))}
        </div>
      ))}
      {call.stands_for > 1 && <span className="faint"> and {number(call.stands_for - 1)} similar calls</span>}
    </div>
  );
}

function CallLine({ call }: { call: CallRow }) {
  const tone = call.status >= 500 ? "bad" : call.status >= 400 ? "held" : call.replayed ? "busy" : "good";
  return (
    <tr>
      <td className="nowrap soft">
        <Age at={call.at} suffix=" ago" />
      </td>
      <td>
        <span className={`chip tone-${tone}`}>
          {call.status}
          {call.replayed && " · repeated"}
        </span>
      </td>
      <td className="anywhere mono">
        <b>{call.method}</b> {visible(call.path)}
      </td>
      <td className="num soft">{number(call.duration_ms)} ms</td>
      <td className={css.said}>
        <Said call={call} />
      </td>
    </tr>
  );
}

/** Recent API calls of each client, with their responses. */
export function Inspector({ client, only, onLook }: Props) {
  const clients = useQuery(clientsQuery);
  const chosen = client || (clients.data?.[0]?.client ?? "");
  const calls = useQuery(callsQuery(chosen, only));
  const note = (
    <Tooltip label="Refusals and repeated pushes are recorded individually, up to 50 in two seconds. Successful calls of one route within two seconds form one row, which shows the slowest and their number. A long-polling call is recorded at its start.">
      <span tabIndex={0} className={css.hint}>
        refusals complete, successes sampled
      </span>
    </Tooltip>
  );
  const filter = (
    <SegmentedControl
      size="xs"
      aria-label="Filter calls"
      value={only ?? ""}
      onChange={(value) => onLook(chosen, (value || undefined) as Only)}
      data={[
        { value: "", label: "All" },
        { value: "refused", label: "Refused" },
        { value: "replayed", label: "Repeated" },
      ]}
    />
  );
  return (
    <Panel title="API calls" note={note} aside={filter}>
      {clients.isError && <ErrorState title="API calls unavailable" error={clients.error} />}
      {clients.data?.length === 0 && (
        <EmptyState title="No API calls yet">
          The last 100 calls of each token, and of each address without a token, appear here within seconds.
        </EmptyState>
      )}
      {clients.data && clients.data.length > 0 && (
        <div className={css.inspector}>
          <ul className={css.clients} aria-label="Clients">
            {clients.data.map((each) => (
              <li key={each.client}>
                <button
                  type="button"
                  className={css.client}
                  aria-pressed={each.client === chosen}
                  onClick={() => onLook(each.client, only)}
                >
                  <b className="anywhere">{visible(nameOf(each))}</b>
                  <span className="tiny soft">
                    {number(each.calls)} calls
                    {each.refused > 0 && <span className="held"> · {number(each.refused)} refused</span>}
                    {each.replayed > 0 && <> · {number(each.replayed)} repeated</>}
                  </span>
                  <span className="tiny faint">
                    <Age at={each.last_at} suffix=" ago" />
                  </span>
                </button>
              </li>
            ))}
          </ul>
          <div className={`table-scroll ${css.calls}`} tabIndex={0} role="region" aria-label="Calls, newest first">
            {calls.data?.length === 0 ? (
              <p className="soft">No matching recorded calls.</p>
            ) : (
              <table className="table">
                <thead>
                  <tr>
                    <th scope="col">Time</th>
                    <th scope="col">Status</th>
                    <th scope="col">Call</th>
                    <th scope="col" className="num">
                      Duration
                    </th>
                    <th scope="col">Response</th>
                  </tr>
                </thead>
                <tbody>
                  {calls.data?.map((call) => (
                    <CallLine key={call.id} call={call} />
                  ))}
                </tbody>
              </table>
            )}
          </div>
        </div>
      )}
    </Panel>
  );
}
