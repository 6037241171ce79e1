import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { EnvironmentRow, RunDetail } from "@/api/types";
import { Age } from "@/components/Age";
import type { Column } from "@/components/DataTable";
import { term } from "@/components/filter/suggest";
import { count, number, percent, visible } from "@/format";
import { type EnvironmentView, type Hold, holdOf } from "@/pages/run/environments/rows";
import queueCss from "@/pages/run/queue/queue.module.css";

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
type Asks = { mayOperate: boolean; onAsk: (what: Ask, environment: EnvironmentRow) => void };

function Actions({ view, mayOperate, onAsk }: { view: EnvironmentView } & Asks) {
  const { environment } = view;
  if (!environment) return null;
  const verbs: [Ask, string, string][] = [
    environment.connected
      ? ["connect", "Disconnect", "Batches no longer wait for it; its pushes are still accepted and served."]
      : ["connect", "Reconnect", "Restores its share of the batches."],
    environment.muted
      ? ["mute", "Unmute", "Serves its pushes again."]
      : ["mute", "Mute", "Its pushes are accepted and counted but never used for training."],
  ];
  return verbs.map(([what, verb, does]) => (
    <Button
      key={what}
      size="compact-sm"
      variant="subtle"
      disabled={!mayOperate}
      title={does}
      aria-label={`${verb} ${view.name}`}
      onClick={() => onAsk(what, environment)}
    >
      {verb}…
    </Button>
  ));
}

function Name({ run, view }: { run: RunDetail; view: EnvironmentView }) {
  const { name, environment } = view;
  const isFleet = run.kind === "fleet";
  const params = { name: run.name };
  return (
    <>
      <b>{visible(name)}</b>
      {environment && <Facts environment={environment} />}
      {!isFleet && (
        <>
          <Link
            to="/runs/$name/trajectories"
            params={params}
            search={{ q: term("env", name) }}
            className="small"
            aria-label={`Samples of ${name}`}
          >
            Samples
          </Link>
          <span className="faint"> · </span>
        </>
      )}
      <Link
        to="/runs/$name/trajectories"
        params={params}
        search={{ ...(isFleet ? { kind: "episode" as const } : {}), q: term("env", name), sort: "score" }}
        className="small"
        aria-label={`Worst first: trajectories of ${name}`}
      >
        Worst first
      </Link>
    </>
  );
}

/** A column heading with its unit on a second line. */
const headed = (heading: string, unit: string) => (
  <>
    {heading}
    <br />
    {unit}
  </>
);

/** The columns of a run's environments: state, share, rate, losses and actions. */
export function columnsOf(run: RunDetail, unit: string, asks: Asks): Column<EnvironmentView>[] {
  const { mayOperate, onAsk } = asks;
  return [
    {
      ...{ id: "name", label: "Environment", className: `anywhere ${queueCss.environmentName}`, value: (view) => view.name },
      cell: (view) => <Name run={run} view={view} />,
    },
    {
      ...{ id: "seen", label: "Last seen", value: ({ environment }) => environment?.last_seen_at },
      cell: (view) =>
        view.environment ? (
          <State environment={view.environment} hold={holdOf(view, run)} />
        ) : (
          <span className="faint">from the fleet</span>
        ),
    },
    {
      ...{ id: "weight", label: "Weight", className: "num", value: ({ environment }) => environment?.weight },
      cell: ({ environment, name }) =>
        environment ? (
          <Button
            size="compact-sm"
            variant="default"
            disabled={!mayOperate}
            aria-label={`Change the weight of ${name}, now ${environment.weight}`}
            onClick={() => onAsk("weight", environment)}
          >
            {number(environment.weight)}
          </Button>
        ) : (
          "–"
        ),
    },
    {
      ...{ id: "share", label: headed("Share", "of target"), className: "num", value: ({ mixing }) => mixing?.realised },
      title: "Share of the batches, and the share by weight",
      cell: ({ mixing }) =>
        mixing ? (
          <>
            {percent(mixing.realised)}
            <div className="faint small">of {percent(mixing.target)}</div>
          </>
        ) : (
          <span className="faint">not mixed</span>
        ),
    },
    {
      ...{ id: "debt", label: headed("Debt", unit), className: "num", value: ({ mixing }) => mixing?.debt },
      title: "Sequences that batches owe the environment by its weight; negative if it is ahead",
      cell: ({ mixing }) => (mixing ? number(mixing.debt) : "–"),
    },
    {
      ...{ id: "rate", label: headed("Pushed", run.kind === "fleet" ? "fragments/min" : "groups/min"), className: "num" },
      value: (view) => view.perSecond,
      cell: (view) => (
        <span data-rate title={view.pushedAt ? "Over the last minute, or less at very high rates" : "None in the last minute"}>
          {view.perSecond === null ? "–" : number(view.perSecond * 60)}
          {view.pushedAt && (
            <span className="faint small">
              <br />
              <Age at={view.pushedAt} suffix=" ago" />
            </span>
          )}
        </span>
      ),
    },
    {
      ...{ id: "queued", label: headed("Queued", unit), className: "num", value: (view) => view.queued },
      cell: (view) => (
        <span data-queued={view.queued}>
          {number(view.queued)} <span className="faint small">{percent(view.queueShare)}</span>
        </span>
      ),
    },
    {
      ...{ id: "served", label: headed("Served", unit), className: "num", value: (view) => view.served },
      cell: (view) => number(view.served),
    },
    {
      ...{ id: "dropped", label: headed(`Dropped ${unit},`, "refused pushes"), title: "Refused: pushes that were rejected entirely" },
      value: (view) => view.dropped,
      cell: (view) => (
        <>
          <Drops run={run} view={view} />
          <Refusals view={view} />
        </>
      ),
    },
    {
      ...{ id: "actions", label: <span className="unseen">Actions</span>, className: queueCss.stacked },
      cell: (view) => <Actions view={view} {...asks} />,
    },
  ];
}
