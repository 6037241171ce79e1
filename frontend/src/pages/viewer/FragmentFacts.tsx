import { Link } from "@tanstack/react-router";
import type { FragmentDetail } from "@/api/fragments";
import { Age } from "@/components/Age";
import { term } from "@/components/filter/suggest";
import { bytes, number, visible } from "@/format";
import { versionsText } from "@/pages/viewer/fragment";
import { Fact } from "@/pages/viewer/Provenance";
import { workerIndex } from "@/pages/viewer/search";
import styles from "@/pages/viewer/viewer.module.css";

/** The source and use of the fragment, with links. */
export function FragmentFacts({ run, detail }: { run: string; detail: FragmentDetail }) {
  const { fragment, content, version } = detail;
  const params = { name: run };
  const worker = workerIndex(fragment.worker);
  const padding = content ? content.steps - content.real_steps : 0;
  const versions = `${fragment.epoch}.${versionsText(fragment)}`;
  return (
    <dl className={styles.facts}>
      <Fact name="Return">
        <b data-return>{number(fragment.reward_sum)}</b>
      </Fact>
      <Fact name="Steps">
        {number(fragment.steps)}
        {padding > 0 && <span className="faint"> and {number(padding)} of padding</span>}
        <span className="faint">, {bytes(fragment.size_bytes)}</span>
      </Fact>
      <Fact name="Weights">
        {version === null ? (
          versions
        ) : (
          <Link to="/runs/$name/weights" params={params} search={{ version }}>
            version {versions}
          </Link>
        )}
      </Fact>
      <Fact name="Worker">
        {worker === null ? (
          visible(fragment.worker)
        ) : (
          <Link to="/runs/$name/fleet" params={params} search={{ worker }}>
            worker {worker}
          </Link>
        )}
        <span className="faint"> · </span>
        <Link to="/runs/$name/trajectories" params={params} search={{ q: term("worker", fragment.worker) }}>
          its fragments
        </Link>
      </Fact>
      {fragment.batch && (
        <Fact name="Batch">
          <Link to="/runs/$name/queue" params={params} search={{ batch: fragment.batch }}>
            train step {number(fragment.step)}
          </Link>
          <span className="faint"> · </span>
          <Link to="/runs/$name/trajectories" params={params} search={{ q: term("batch", fragment.batch) }}>
            its fragments
          </Link>
        </Fact>
      )}
      {fragment.uses > 0 && <Fact name="Sampled into">{number(fragment.uses)} batches</Fact>}
      <Fact name="Environment">{visible(fragment.environment)}</Fact>
      <Fact name="Contiguous">{fragment.contiguous ? "yes" : "no"}</Fact>
      <Fact name="Received">
        <Age at={fragment.received_at} suffix=" ago" />
      </Fact>
    </dl>
  );
}
