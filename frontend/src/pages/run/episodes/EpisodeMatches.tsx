import { Link } from "@tanstack/react-router";
import type { RunDetail } from "@/api/types";
import { Age } from "@/components/Age";
import { Table } from "@/components/Table";
import { number, policyStep, visible } from "@/format";
import type { EpisodeFind, Measure } from "@/pages/run/episodes/api";
import { FindEpisode } from "@/pages/run/episodes/FindEpisode";

/** `of` is the measure that matches were searched by. */
type Props = { run: RunDetail; matches: EpisodeFind[]; label: string; value: string; of: Measure };

/** Matching episodes of a fleet, with links to their fragments. */
export function EpisodeMatches({ run, matches, label, value, of }: Props) {
  return (
    <Table
      label={label}
      columns={[
        { label: value, className: "num" },
        "Environment",
        { label: "Worker", className: "num" },
        { label: "Version", className: "num" },
        { label: "Ended", className: "num" },
        { label: <span className="unseen">Link</span> },
      ]}
    >
      {matches.map((find) => (
        <tr key={`${find.report} ${find.value}`}>
          <td className="num">{number(find.value)}</td>
          <td className="anywhere">
            {visible(find.environment)}
            {find.mode === "eval" && <span className="faint small"> evaluation</span>}
          </td>
          <td className="num">
            <Link to="/runs/$name/fleet" params={{ name: run.name }} search={{ worker: find.worker }}>
              w{find.worker}
            </Link>
          </td>
          <td className="num">{policyStep(find.policy_step)}</td>
          <td className="num">
            <Age at={find.at} suffix=" ago" />
          </td>
          <td>
            <FindEpisode run={run.name} find={find} of={of} />
          </td>
        </tr>
      ))}
    </Table>
  );
}
