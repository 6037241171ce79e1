import { Link } from "@tanstack/react-router";
import { Fragment, type ReactNode } from "react";
import type { GroupDetail } from "@/api/groups";
import { term } from "@/components/filter/suggest";
import { Age } from "@/components/inline";
import { bytes, number, versionName, visible } from "@/format";
import { useRun } from "@/pages/run/RunContext";
import { workerIndex } from "@/pages/viewer/search";
import styles from "@/pages/viewer/viewer.module.css";
import type { SampleSearch } from "@/samples/search";

/** A labelled value. */
export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className={styles.fact}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

type FilteredProps = { run: string; q: string; kind?: SampleSearch["kind"]; sort?: SampleSearch["sort"]; children: ReactNode };

/** A link to the samples of the run that a term matches. */
const Filtered = ({ run, children, ...search }: FilteredProps) => (
  <Link to="/runs/$name/trajectories" params={{ name: run }} search={search}>
    {children}
  </Link>
);

/** A worker of the fleet, and a link to what it sent; only the name outside fleets. */
function Worker({ run, name, sent }: { run: string; name: string; sent: string }) {
  // Worker names of outside runs are arbitrary.
  const index = useRun().run.kind === "outside" ? null : workerIndex(name);
  return (
    <>
      {index !== null && (
        <>
          <Link to="/runs/$name/fleet" params={{ name: run }} search={{ worker: index }}>
            worker {index}
          </Link>
          <span className="faint"> · </span>
        </>
      )}
      <Filtered run={run} q={term("worker", name)}>
        {index === null ? visible(name) : sent}
      </Filtered>
    </>
  );
}

const Received = ({ at }: { at: string }) => (
  <Fact name="Received">
    <Age at={at} suffix=" ago" />
  </Fact>
);

/** The source and use of a group, with links to related groups. */
export function GroupFacts({ run, detail }: { run: string; detail: GroupDetail }) {
  const { group, batch, version } = detail;
  const params = { name: run };
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
          <span className="faint"> · {[batch.state, visible(batch.trainer ?? "")].filter(Boolean).join(" · ")} · </span>
          <Filtered run={run} q={term("batch", batch.id)}>
            all groups
          </Filtered>
        </Fact>
      )}
      <Fact name="Weights">
        {group.policy_step === null ? (
          "unknown"
        ) : (
          <>
            {version ? (
              <Link to="/runs/$name/weights" params={params} search={{ version: version.id }} title={`sha256 ${version.sha256}`}>
                version {versionName(group.epoch, group.policy_step)}
              </Link>
            ) : (
              versionName(group.epoch, group.policy_step)
            )}
            <span className="faint"> · </span>
            <Filtered run={run} q={term("version", group.policy_step)}>
              all groups
            </Filtered>
          </>
        )}
        {batch?.staleness != null && <span className="faint"> · {number(batch.staleness)} behind when leased</span>}
      </Fact>
      {group.environment && (
        <Fact name="Environment">
          <Filtered run={run} q={term("env", group.environment)}>
            {visible(group.environment)}
          </Filtered>
        </Fact>
      )}
      {group.lesson && (
        <Fact name="Lesson">
          <Filtered run={run} q={term("env", group.lesson)}>
            {visible(group.lesson)}
          </Filtered>
          {detail.env_spec && <span className="faint"> · {visible(detail.env_spec)}</span>}
        </Fact>
      )}
      <Fact name="Producer">
        {group.worker ? (
          <Worker run={run} name={group.worker} sent={`groups of ${visible(group.worker)}`} />
        ) : (
          visible(group.producer) || "–"
        )}
      </Fact>
      {group.example && <Fact name="Problem">{visible(group.example)}</Fact>}
      {detail.seed !== null && <Fact name="Seed of the run">{detail.seed}</Fact>}
      <Received at={group.received_at} />
      {Object.entries(detail.facts).map(([key, value]) => (
        <Fact key={key} name={visible(key.replace(/^meta\./, "").replace(/^override\./, "Override "))}>
          {[value]
            .flat()
            .map(String)
            .map((one, at) => (
              <Fragment key={one}>
                {at > 0 && ", "}
                {/* Filters cannot hold quotes. */}
                {one.includes('"') ? (
                  visible(one)
                ) : (
                  <Filtered run={run} q={term(key, one)}>
                    {visible(one)}
                  </Filtered>
                )}
              </Fragment>
            ))}
        </Fact>
      ))}
    </dl>
  );
}

type Source = { environment: string; slot: string; worker: string };
type StepFactsProps = { run: string; source: Source; weights: ReactNode; received_at: string | undefined; children: ReactNode };

/** The source of steps, with links, after the facts of only a fragment or an episode. */
export function StepFacts({ run, source: { environment, slot, worker }, weights, received_at, children }: StepFactsProps) {
  return (
    <dl className={styles.facts}>
      {children}
      <Fact name="Environment">
        <Filtered run={run} kind="episode" q={term("env", environment)} sort="score">
          {visible(environment)}
        </Filtered>
      </Fact>
      <Fact name="Env slot">{visible(slot)}</Fact>
      <Fact name="Worker">
        <Worker run={run} name={worker} sent="its fragments" />
      </Fact>
      <Fact name="Weights">{weights}</Fact>
      {received_at && <Received at={received_at} />}
    </dl>
  );
}
