import { Link } from "@tanstack/react-router";
import type { RunDetail } from "@/api/types";
import { Age } from "@/components/Age";
import { Table } from "@/components/Table";
import { number, policyStep, visible } from "@/format";
import type { EpisodeFind, Measure } from "@/pages/run/episodes/api";
import { FindEpisode } from "@/pages/run/episodes/FindEpisode";

const WORDS: Record<EpisodeFind["kind"], string> = { highest: "highest return", lowest: "lowest return", longest: "longest", match: "" };

/** `of` is the measure that matches were searched by. */
type Props = { run: RunDetail; matches: EpisodeFind[]; label: string; value: string; of?: Measure };

/** Outlier or matching episodes of a fleet, with links to their fragments. */
export function EpisodeMatches({ run, matches, label, value, of = "return" }: Props) {
  const hasKinds = matches.some(({ kind }) => kind !== "match");
  return (
    <Table
      label={label}
      columns={[
        hasKinds && "Type",
        { label: value, className: "num" },
        "Environment",
        { label: "Worker", className: "num" },
        { label: "Version", className: "num" },
        { label: "Ended", className: "num" },
        { label: <span className="unseen">Link</span> },
      ]}
    >
      {matches.map((find) => (
        <tr key={`${find.kind} ${find.report} ${find.value}`} data-find={find.kind}>
          {hasKinds && <td>{WORDS[find.kind]}</td>}
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
            <FindEpisode run={run.name} find={find} of={find.kind === "match" ? of : find.kind === "longest" ? "length" : "return"} />
          </td>
        </tr>
      ))}
    </Table>
  );
}
