import { Button, Checkbox, TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type Asked, type AuditRow, auditQuery } from "@/api/audit";
import { Age } from "@/components/Age";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { LongText } from "@/components/LongText";
import { ShowMore } from "@/components/ShowMore";
import { Skeletons } from "@/components/Skeletons";
import { visible } from "@/format";
import { useChangeFeed } from "@/live/changeFeed";
import { usePart } from "@/live/live";
import { changesIn } from "@/pages/audit/changes";
import css from "./audit.module.css";

/** Minimum interval between refetches of the list. */
const NEWS_MS = 5_000;

const BOXES: { name: keyof Omit<Asked, "people">; label: string; hint: string }[] = [
  { name: "text", label: "Text", hint: "in the event or reason" },
  { name: "actor", label: "Actor", hint: "user:ada, token:7" },
  { name: "run", label: "Run", hint: "full name" },
  { name: "kind", label: "Kind", hint: "status, tagged …" },
  { name: "request", label: "Request", hint: "request ID" },
];

function Line({ row, onAsk }: { row: AuditRow; onAsk: (asked: Asked) => void }) {
  const changes = changesIn(row.details);
  // The actor type, such as user or token; components of the platform have none.
  const sort = row.actor.split(":")[0] ?? "";
  return (
    <tr data-row>
      <td className="nowrap soft">
        <Age at={row.at} suffix=" ago" />
      </td>
      <td className={css.who}>
        <button type="button" className={css.ask} title={`Show only changes by ${row.actor}`} onClick={() => onAsk({ actor: row.actor })}>
          {visible(row.actor_name)}
        </button>
        {sort !== row.actor_name && <div className="tiny faint">{visible(sort)}</div>}
      </td>
      <td className={`wide-only ${css.run}`}>
        {row.run ? (
          <Link to="/runs/$name" params={{ name: row.run }} className="strong run-name" data-open>
            {row.run}
          </Link>
        ) : (
          <span className="faint">server</span>
        )}
      </td>
      <td className={`anywhere ${css.what}`}>
        <span className={row.level === "error" ? "bad" : undefined}>
          <LongText text={row.message} />
        </span>
        {row.reason && (
          <div className="soft small">
            “<LongText text={row.reason} />”
          </div>
        )}
        {changes.length > 0 && (
          <details className="small">
            <summary className="faint">before and after</summary>
            {changes.map(({ name, before, after }) => (
              <div key={name} className="mono">
                {visible(name)}: <del>{visible(before)}</del> → <ins>{visible(after)}</ins>
              </div>
            ))}
          </details>
        )}
      </td>
      <td className={`wide-only ${css.kind}`}>
        <button type="button" className={css.ask} onClick={() => onAsk({ kind: row.kind })}>
          {visible(row.kind)}
        </button>
        {row.request_id && (
          <button
            type="button"
            className={`${css.ask} ${css.id}`}
            title="Show all changes of this request"
            onClick={() => onAsk({ request: row.request_id })}
          >
            {visible(row.request_id.slice(0, 8))}
          </button>
        )}
      </td>
    </tr>
  );
}

export function AuditPage() {
  const asked = useSearch({ from: "/shell/audit" });
  const navigate = useNavigate({ from: "/audit" });
  const rereadMs = useChangeFeed(usePart("audit", "audit")?.newest, NEWS_MS, ["audit"]);
  const pages = useInfiniteQuery({ ...auditQuery(asked), refetchInterval: rereadMs });
  const rows = pages.data?.pages.flatMap(({ results }) => results) ?? [];
  const ask = (changes: Asked) =>
    void navigate({
      search: (now) => Object.fromEntries(Object.entries({ ...now, ...changes }).filter(([, value]) => value)),
      replace: true,
    });
  const address = new URLSearchParams(Object.entries(asked).flatMap(([name, value]) => (value ? [[name, String(value)]] : [])));
  return (
    <>
      <div className="page-title">
        <h1>Audit</h1>
        <span className="soft small">All changes with author, time and reason. Entries are never changed or deleted.</span>
        <span className="spacer" />
        <Button component="a" variant="default" size="compact-sm" href={`/api/v1/audit.csv?${address}`} download>
          CSV
        </Button>
      </div>
      <section className="panel" aria-label="Changes, newest first">
        <div className={css.boxes}>
          {BOXES.map(({ name, label, hint }) => (
            <TextInput
              key={name}
              size="xs"
              label={label}
              placeholder={hint}
              value={asked[name] ?? ""}
              data-filter={name === "text" || undefined}
              onChange={(event) => ask({ [name]: event.currentTarget.value })}
            />
          ))}
          <Checkbox
            size="xs"
            label="Only users and tokens"
            checked={asked.people === "1"}
            onChange={(event) => ask({ people: event.currentTarget.checked ? "1" : undefined })}
          />
        </div>
        {pages.isPending && <Skeletons heights={[260]} />}
        {pages.isError && <ErrorState title="Audit log unavailable" error={pages.error} onRetry={() => void pages.refetch()} />}
        {pages.isSuccess && rows.length === 0 && <EmptyState title="No matching entries">Remove a filter above.</EmptyState>}
        {rows.length > 0 && (
          <div className="table-scroll">
            <table className="table">
              <thead>
                <tr>
                  <th scope="col">Time</th>
                  <th scope="col">Actor</th>
                  <th scope="col" className="wide-only">
                    Run
                  </th>
                  <th scope="col">Change and reason</th>
                  <th scope="col" className="wide-only">
                    Kind, request
                  </th>
                </tr>
              </thead>
              <tbody className={css.rows}>
                {rows.map((row) => (
                  <Line key={row.id} row={row} onAsk={ask} />
                ))}
              </tbody>
            </table>
          </div>
        )}
        <ShowMore pages={pages} />
      </section>
    </>
  );
}
