import { Link } from "@tanstack/react-router";
import type { EpisodeFind } from "@/api/episodes";
import type { RunDetail } from "@/api/types";
import { Age } from "@/components/Age";
import { number, policyStep, visible } from "@/format";
import { fragmentsOf } from "@/pages/run/episodes/heat";

const WORDS: Record<EpisodeFind["kind"], string> = { highest: "highest return", lowest: "lowest return", longest: "longest", match: "" };

type Props = { run: RunDetail; finds: EpisodeFind[]; label: string; value: string };

/** Reports of a fleet with an episode that somebody looks for, each with the way to what its worker sampled then. */
export function Finds({ run, finds, label, value }: Props) {
  const hasKinds = finds.some(({ kind }) => kind !== "match");
  return (
    <div className="table-scroll">
      <table className="table" aria-label={label}>
        <thead>
          <tr>
            {hasKinds && <th>What</th>}
            <th className="num">{value}</th>
            <th>Environment</th>
            <th className="num">Worker</th>
            <th className="num">Version</th>
            <th className="num">Ended</th>
            <th><span className="unseen">Leads to</span></th>
          </tr>
        </thead>
        <tbody>
          {finds.map((find) => (
            <tr key={`${find.kind} ${find.report}`} data-find={find.kind}>
              {hasKinds && <td>{WORDS[find.kind]}</td>}
              <td className="num">{number(find.value)}</td>
              <td className="anywhere">{visible(find.environment)}{find.mode === "eval" && <span className="faint small"> evaluation</span>}</td>
              <td className="num"><Link to="/runs/$name/fleet" params={{ name: run.name }} search={{ worker: find.worker }}>w{find.worker}</Link></td>
              <td className="num">{policyStep(find.policy_step)}</td>
              <td className="num"><Age at={find.at} suffix=" ago" /></td>
              <td>
                <Link
                  to="/runs/$name/trajectories"
                  params={{ name: run.name }}
                  search={fragmentsOf(find)}
                  aria-label={`Its fragments: worker ${find.worker}, version ${policyStep(find.policy_step)}`}
                >
                  Its fragments
                </Link>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
