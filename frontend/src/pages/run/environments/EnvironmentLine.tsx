import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { EnvironmentRow, RunDetail } from "@/api/types";
import { Age } from "@/components/Age";
import { term } from "@/components/filter/suggest";
import { count, number, percent, visible } from "@/format";
import { type EnvironmentView, type Hold, holdOf } from "@/pages/run/environments/rows";

const SHOWN_REASONS = 3;
const words = (reason: string) => reason.replaceAll("_", " ");

/** Dropped items by reason, most frequent first; each links to the dropped items. */
function Drops({ run, view }: { run: RunDetail; view: EnvironmentView }) {
  if (view.dropped === 0) return <span className="faint">none</span>;
  const more = view.reasons.slice(SHOWN_REASONS);
  return (
    <>
      {percent(view.dropShare)}{" "}
      <span className="faint small">
        {view.reasons.slice(0, SHOWN_REASONS).map(([reason, items], i) => (
          <span key={reason}>
            {i > 0 && ", "}
            {run.kind === "fleet" ? (
              words(reason)
            ) : (
              <Link
                to="/runs/$name/trajectories"
                params={{ name: run.name }}
                search={{ q: `${term("env", view.name)} ${term("reason", reason)}` }}
                aria-label={`${words(reason)} drops of ${view.name}`}
              >
                {words(reason)}
              </Link>
            )}{" "}
            {number(items)}
          </span>
        ))}
        {more.length > 0 && (
          <span title={more.map(([reason, items]) => `${words(reason)} ${number(items)}`).join(", ")}>{`, ${more.length} more`}</span>
        )}
      </span>
    </>
  );
}

/** Groups of refused pushes by reason, with the latest error message of each. */
function Refusals({ view }: { view: EnvironmentView }) {
  if (view.refused === 0) return null;
  return (
    <div className="small" data-refused={view.refused}>
      refused {number(view.refused)}:{" "}
      <span className="faint">
        {view.refusals.slice(0, SHOWN_REASONS).map(([reason, { pushes, groups, message }], i) => (
          <span key={reason} title={visible(message)}>
            {i > 0 && ", "}
            {words(reason)} {number(Math.max(groups ?? 0, pushes))}
          </span>
        ))}
        {view.refusals.length > SHOWN_REASONS && `, ${view.refusals.length - SHOWN_REASONS} more`} ·{" "}
        <Age at={view.refusals[0]?.[1].newest_at ?? null} suffix=" ago" />
      </span>
      <div className="faint anywhere">{visible(view.refusals[0]?.[1].message ?? "")}</div>
    </div>
  );
}

/** Filter of the trajectory list for this environment. */
function Shares({ view }: { view: EnvironmentView }) {
  const { mixing } = view;
  if (!mixing)
    return (
      <td className="num faint" colSpan={2}>
        not mixed
      </td>
    );
  return (
    <>
      <td className="num">
        {percent(mixing.realised)}
        <div className="faint small">of {percent(mixing.target)}</div>
      </td>
      <td className="num" title="Sequences that batches owe the environment by its weight; negative if it is ahead.">
        {number(mixing.debt)}
      </td>
    </>
  );
}

const HOLDS: Record<Hold, [tone: string, sign: string, label: string]> = {
  stopped: ["quiet", "◌", "stopped"],
  sending: ["held", "●", "still sends"],
  unreached: ["held", "●", "unreached"],
};

function State({ environment, hold }: { environment: EnvironmentRow; hold: Hold | null }) {
  const [tone, sign, label] = environment.muted
    ? ["held", "⊘", "muted"]
    : environment.connected
      ? hold
        ? HOLDS[hold]
        : ["good", "●", "connected"]
      : ["quiet", "○", "gone"];
  return (
    <span
      className={`chip tone-${tone}`}
      title={
        environment.muted ? `Its pushes are counted as dropped.${environment.connected ? "" : " It is also disconnected."}` : undefined
      }
    >
      <span className="chip-sign" aria-hidden="true">
        {sign}
      </span>
      {label}
      <span className="chip-age">
        · <Age at={environment.last_seen_at} suffix=" ago" />
      </span>
    </span>
  );
}

function Facts({ environment }: { environment: EnvironmentRow }) {
  return (
    <div className="faint small">
      id {environment.env_id} · groups of {number(environment.group_size)}
      {environment.max_token_length > 0 && ` · up to ${count(environment.max_token_length)} tokens`}
      {environment.min_batch_allocation !== null && ` · at least ${percent(environment.min_batch_allocation)}`}
      {environment.spec && <span className="anywhere"> · {visible(environment.spec)}</span>}
    </div>
  );
}

export type Ask = "weight" | "connect" | "mute";
type Props = { run: RunDetail; view: EnvironmentView; mayOperate: boolean; onAsk: (what: Ask, environment: EnvironmentRow) => void };

function Actions({ view, mayOperate, onAsk }: Props) {
  const { environment } = view;
  const verbs: [Ask, string, string][] = environment
    ? [
        [
          "connect",
          environment.connected ? "Disconnect" : "Reconnect",
          environment.connected
            ? "Batches no longer wait for it; its pushes are still accepted and served."
            : "Restores its share of the batches.",
        ],
        [
          "mute",
          environment.muted ? "Unmute" : "Mute",
          environment.muted ? "Serves its pushes again." : "Its pushes are accepted and counted but never used for training.",
        ],
      ]
    : [];
  return (
    <td className="stacked">
      {verbs.map(([what, verb, does]) => (
        <Button
          key={what}
          size="compact-sm"
          variant="subtle"
          disabled={!mayOperate}
          title={does}
          aria-label={`${verb} ${view.name}`}
          onClick={() => environment && onAsk(what, environment)}
        >
          {verb}…
        </Button>
      ))}
    </td>
  );
}

/** One environment: state, share, rate, losses and actions. */
export function EnvironmentLine(props: Props) {
  const { run, view, mayOperate, onAsk } = props;
  const { environment } = view;
  return (
    <tr data-environment={view.name}>
      <td className="anywhere environment-name">
        <b>{visible(view.name)}</b>
        {environment && <Facts environment={environment} />}
        {run.kind !== "fleet" && (
          <>
            <Link
              to="/runs/$name/trajectories"
              params={{ name: run.name }}
              search={{ q: term("env", view.name) }}
              className="small"
              aria-label={`Samples of ${view.name}`}
            >
              Samples
            </Link>
            <span className="faint"> · </span>
          </>
        )}
        <Link
          to="/runs/$name/trajectories"
          params={{ name: run.name }}
          search={{ ...(run.kind === "fleet" ? { kind: "episode" as const } : {}), q: term("env", view.name), sort: "score" }}
          className="small"
          aria-label={`Worst first: trajectories of ${view.name}`}
        >
          Worst first
        </Link>
      </td>
      <td>{environment ? <State environment={environment} hold={holdOf(view, run)} /> : <span className="faint">from the fleet</span>}</td>
      <td className="num">
        {environment ? (
          <Button
            size="compact-sm"
            variant="default"
            disabled={!mayOperate}
            aria-label={`Change the weight of ${view.name}, now ${environment.weight}`}
            onClick={() => onAsk("weight", environment)}
          >
            {number(environment.weight)}
          </Button>
        ) : (
          "–"
        )}
      </td>
      <Shares view={view} />
      <td className="num" data-rate title={view.pushedAt ? "Over the last minute, or less at very high rates" : "None in the last minute"}>
        {view.perSecond === null ? "–" : number(view.perSecond * 60)}
        {view.pushedAt && (
          <div className="faint small">
            <Age at={view.pushedAt} suffix=" ago" />
          </div>
        )}
      </td>
      <td className="num" data-queued={view.queued}>
        {number(view.queued)} <span className="faint small">{percent(view.queueShare)}</span>
      </td>
      <td className="num">{number(view.served)}</td>
      <td>
        <Drops run={run} view={view} />
        <Refusals view={view} />
      </td>
      <Actions {...props} />
    </tr>
  );
}
