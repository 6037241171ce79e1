import { Link } from "@tanstack/react-router";
import { Fragment, type ReactNode } from "react";
import type { GroupDetail } from "@/api/groups";
import { Age } from "@/components/Age";
import { term } from "@/components/filter/suggest";
import { bytes, number, versionName, visible } from "@/format";
import { useRun } from "@/pages/run/RunContext";
import { workerIndex } from "@/pages/viewer/search";
import styles from "@/pages/viewer/viewer.module.css";

/** A labelled value. */
export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className={styles.fact}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** The source and use of the group, with links to related groups. */
export function Provenance({ run, detail }: { run: string; detail: GroupDetail }) {
  const { group, batch, version } = detail;
  const to = "/runs/$name/trajectories" as const;
  const params = { name: run };
  // Worker names of outside runs are arbitrary.
  const worker = useRun().run.kind === "outside" ? null : workerIndex(group.worker);
  return (
    <dl className={styles.facts}>
      <Fact name="Scores">
        <b>{number(group.score_mean)}</b>
        <span className="faint">
          {" "}
          ± {number(group.score_std)}, {number(group.score_min)} to {number(group.score_max)}
        </span>
      </Fact>
      <Fact name="Tokens">
        {number(group.tokens)}{" "}
        <span className="faint">
          in {group.sequences}, {bytes(group.size_bytes)}
        </span>
      </Fact>
      {batch && (
        <Fact name="Batch">
          <Link to="/runs/$name/queue" params={params} search={{ batch: batch.id }}>
            {number(batch.step)}
          </Link>
          <span className="faint">
            {" "}
            · {batch.state}
            {batch.trainer ? ` · ${visible(batch.trainer)}` : ""} ·{" "}
          </span>
          <Link to={to} params={params} search={{ q: term("batch", batch.id) }}>
            all groups
          </Link>
        </Fact>
      )}
      <Fact name="Weights">
        {group.policy_step === null && "unknown"}
        {version && (
          <Link to="/runs/$name/weights" params={params} search={{ version: version.id }}>
            version {versionName(group.epoch, group.policy_step)}
          </Link>
        )}
        {!version && group.policy_step !== null && versionName(group.epoch, group.policy_step)}
        {group.policy_step !== null && (
          <>
            <span className="faint"> · </span>
            <Link to={to} params={params} search={{ q: term("version", group.policy_step) }}>
              all groups
            </Link>
          </>
        )}
        {batch?.staleness != null && <span className="faint"> · {number(batch.staleness)} behind when leased</span>}
        {version && (
          <span className="faint mono" title={`sha256 ${version.sha256}`}>
            {" "}
            · {version.sha256.slice(0, 8)}
          </span>
        )}
      </Fact>
      {group.environment && (
        <Fact name="Environment">
          <Link to={to} params={params} search={{ q: term("env", group.environment) }}>
            {visible(group.environment)}
          </Link>
        </Fact>
      )}
      {group.lesson && (
        <Fact name="Lesson">
          <Link to={to} params={params} search={{ q: term("env", group.lesson) }}>
            {visible(group.lesson)}
          </Link>
          {detail.env_spec && <span className="faint"> · {visible(detail.env_spec)}</span>}
        </Fact>
      )}
      <Fact name="Producer">
        {worker !== null && (
          <>
            <Link to="/runs/$name/fleet" params={params} search={{ worker }}>
              worker {worker}
            </Link>
            <span className="faint"> · </span>
          </>
        )}
        {group.worker ? (
          <Link to={to} params={params} search={{ q: term("worker", group.worker) }}>
            {worker === null ? visible(group.worker) : `groups of ${visible(group.worker)}`}
          </Link>
        ) : (
          visible(group.producer) || "–"
        )}
      </Fact>
      {group.example && <Fact name="Problem">{visible(group.example)}</Fact>}
      {detail.seed !== null && <Fact name="Seed of the run">{detail.seed}</Fact>}
      <Fact name="Received">
        <Age at={group.received_at} suffix=" ago" />
      </Fact>
      {Object.entries(detail.facts).map(([key, value]) => (
        <Fact key={key} name={visible(key.replace(/^meta\./, "").replace(/^override\./, "Override "))}>
          {[value].flat().map((one, at) => (
            <Fragment key={String(one)}>
              {at > 0 && ", "}
              {/* Filters cannot hold quotes. */}
              {String(one).includes('"') ? (
                visible(String(one))
              ) : (
                <Link to={to} params={params} search={{ q: term(key, String(one)) }}>
                  {visible(String(one))}
                </Link>
              )}
            </Fragment>
          ))}
        </Fact>
      ))}
    </dl>
  );
}
