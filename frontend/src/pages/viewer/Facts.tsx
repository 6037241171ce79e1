import { Link } from "@tanstack/react-router";
import { Fragment, type ReactNode } from "react";
import type { GroupDetail } from "@/api/groups";
import { type Fact, Facts } from "@/components/Facts";
import { term } from "@/components/filter/suggest";
import { Age } from "@/components/inline";
import { bytes, number, versionName, visible } from "@/format";
import { useRun } from "@/pages/run/RunContext";
import { workerIndex } from "@/pages/viewer/search";
import type { SampleSearch } from "@/samples/search";

type FilteredProps = { run: string; q: string; kind?: SampleSearch["kind"]; children: ReactNode };

/** A link to the samples of the run that a term matches. */
const Filtered = ({ run, children, ...search }: FilteredProps) => (
  <Link to="/runs/$name/trajectories" params={{ name: run }} search={search}>
    {children}
  </Link>
);

/** A worker of the fleet; outside fleets, a link to what it sent. */
function Worker({ run, name }: { run: string; name: string }) {
  // Worker names of outside runs are arbitrary.
  const index = useRun().run.kind === "outside" ? null : workerIndex(name);
  return index === null ? (
    <Filtered run={run} q={term("worker", name)}>
      {visible(name)}
    </Filtered>
  ) : (
    <Link to="/runs/$name/fleet" params={{ name: run }} search={{ worker: index }}>
      worker {index}
    </Link>
  );
}

type Version = { id?: number | null; name: string };

/** A policy version, with a link to its row if it is stored. */
const Weights = ({ run, id, name }: Version & { run: string }) =>
  id == null ? (
    name
  ) : (
    <Link to="/runs/$name/weights" params={{ name: run }} search={{ version: id }}>
      version {name}
    </Link>
  );

type BatchProps = { run: string; id: string; words: string; all: string };

/** A batch, and a link to all that it holds. */
const Batch = ({ run, id, words, all }: BatchProps) => (
  <>
    <Link to="/runs/$name/queue" params={{ name: run }} search={{ batch: id }}>
      {words}
    </Link>
    <span className="faint"> · </span>
    <Filtered run={run} q={term("batch", id)}>
      {all}
    </Filtered>
  </>
);

/** The source and use of a group, with links to related groups. */
export function GroupFacts({ run, detail }: { run: string; detail: GroupDetail }) {
  const { group, batch, version } = detail;
  const named = (qualifier: string, name: string) => (
    <Filtered run={run} q={term(qualifier, name)}>
      {visible(name)}
    </Filtered>
  );
  const facts: Parameters<typeof Facts>[0]["facts"] = [
    ["Scores", `${number(group.score_mean)} ± ${number(group.score_std)}, ${number(group.score_min)} to ${number(group.score_max)}`],
    ["Tokens", `${number(group.tokens)} in ${group.sequences}, ${bytes(group.size_bytes)}`],
    batch && ["Batch", <Batch key="" run={run} id={batch.id} words={`${number(batch.step)}, ${batch.state}`} all="all groups" />],
    batch?.trainer && ["Trainer", visible(batch.trainer)],
    [
      "Weights",
      group.policy_step === null ? (
        "unknown"
      ) : (
        <>
          <Weights run={run} id={version?.id} name={versionName(group.epoch, group.policy_step)} />
          <span className="faint"> · </span>
          <Filtered run={run} q={term("version", group.policy_step)}>
            all groups
          </Filtered>
          {batch?.staleness != null && <span className="faint"> · {number(batch.staleness)} behind when leased</span>}
        </>
      ),
    ],
    group.environment && ["Environment", named("env", group.environment)],
    group.lesson && ["Lesson", named("env", group.lesson)],
    ["Producer", group.worker ? <Worker key="" run={run} name={group.worker} /> : visible(group.producer) || "–"],
    group.example && ["Problem", visible(group.example)],
    ["Received", <Age key="" at={group.received_at} suffix=" ago" />],
    ...Object.entries(detail.facts).map(
      ([key, value]): Fact => [
        visible(key.replace(/^meta\./, "").replace(/^override\./, "Override ")),
        [value]
          .flat()
          .map(String)
          .map((one, at) => (
            <Fragment key={one}>
              {at > 0 && ", "}
              {/* Filters cannot hold quotes. */}
              {one.includes('"') ? visible(one) : named(key, one)}
            </Fragment>
          )),
      ],
    ),
  ];
  return <Facts facts={facts} />;
}

type StepFactsProps = {
  run: string;
  source: { environment: string; slot: string; worker: string };
  version: Version;
  batch?: { id: string; step: number | null } | null;
  received_at: string | undefined;
  /** Facts of only a fragment or an episode. */
  facts: Parameters<typeof Facts>[0]["facts"];
};

/** The source and use of steps, with links. */
export function StepFacts({ run, source: { environment, slot, worker }, version, batch, received_at, facts }: StepFactsProps) {
  return (
    <Facts
      facts={[
        ...facts,
        batch && ["Batch", <Batch key="" run={run} id={batch.id} words={`train step ${number(batch.step)}`} all="its fragments" />],
        [
          "Environment",
          <Filtered key="" run={run} kind="episode" q={term("env", environment)}>
            {visible(environment)}
          </Filtered>,
        ],
        ["Env slot", visible(slot)],
        ["Worker", <Worker key="" run={run} name={worker} />],
        ["Weights", <Weights key="" run={run} {...version} />],
        received_at && ["Received", <Age key="" at={received_at} suffix=" ago" />],
      ]}
    />
  );
}
