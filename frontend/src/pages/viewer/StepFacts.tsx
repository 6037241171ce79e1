import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Age } from "@/components/Age";
import { term } from "@/components/filter/suggest";
import { visible } from "@/format";
import { Fact } from "@/pages/viewer/Provenance";
import { workerIndex } from "@/pages/viewer/search";
import styles from "@/pages/viewer/viewer.module.css";

type Props = {
  run: string;
  environment: string;
  slot: string;
  worker: string;
  weights: ReactNode;
  received_at: string | undefined;
  /** Facts of a fragment or an episode only. */
  children: ReactNode;
};

/** The source of steps, with links. */
export function StepFacts({ run, environment, slot, worker, weights, received_at, children }: Props) {
  const params = { name: run };
  const index = workerIndex(worker);
  return (
    <dl className={styles.facts}>
      {children}
      <Fact name="Environment">
        <Link
          to="/runs/$name/trajectories"
          params={params}
          search={{ kind: "episode", q: term("env", environment), sort: "score" }}
          title="Worst episodes of this environment"
        >
          {visible(environment)}
        </Link>
      </Fact>
      <Fact name="Env slot">
        <span className="anywhere">{visible(slot)}</span>
      </Fact>
      <Fact name="Worker">
        {index === null ? (
          visible(worker)
        ) : (
          <Link to="/runs/$name/fleet" params={params} search={{ worker: index }}>
            worker {index}
          </Link>
        )}
        <span className="faint"> · </span>
        <Link to="/runs/$name/trajectories" params={params} search={{ q: term("worker", worker) }}>
          its fragments
        </Link>
      </Fact>
      <Fact name="Weights">{weights}</Fact>
      {received_at && (
        <Fact name="Received">
          <Age at={received_at} suffix=" ago" />
        </Fact>
      )}
    </dl>
  );
}
