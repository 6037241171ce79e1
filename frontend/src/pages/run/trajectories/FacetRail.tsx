import type { GroupFacets, GroupQuery } from "@/api/groups";
import { count, visible } from "@/format";
import { Histogram } from "@/pages/run/trajectories/Histogram";
import { type Choice, listSearch, type Range, toggled } from "@/pages/run/trajectories/search";
import styles from "@/pages/run/trajectories/trajectories.module.css";

const TITLES: [Choice, string][] = [
  ["label", "Label"],
  ["mark", "Marked"],
  ["state", "State"],
  ["flag", "Flags"],
  ["reason", "Drop reason"],
  ["env", "Environment"],
  ["lesson", "Lesson"],
  ["worker", "Worker"],
];
const SHOWN = 9;
/** Facets that are shown even with a single value. */
const ALWAYS: Choice[] = ["flag", "label", "mark"];
const OF_PEOPLE: Choice[] = ["label", "mark"];

type Props = { facets: GroupFacets | undefined; query: GroupQuery; onChange: (query: GroupQuery) => void };

/** Available filter values, with the number of groups for each. */
export function FacetRail({ facets, query, onChange }: Props) {
  const setRange = (name: Range) => (least: number | undefined, most: number | undefined) =>
    onChange(listSearch({ ...query, [`${name}_min`]: least, [`${name}_max`]: most }));
  return (
    <>
      {TITLES.map(([name, title]) => {
        const values = facets?.facets[name] ?? [];
        const chosen = query[name] ?? [];
        const gone = chosen.filter((value) => !values.some((each) => each.value === value));
        const all = [...gone.map((value) => ({ value, label: value, groups: 0 })), ...values];
        const isChoice = all.length > 1 || chosen.length > 0;
        if (!isChoice && !ALWAYS.includes(name)) return null;
        if (all.length === 0) return null;
        return (
          <fieldset key={name} className={styles.facet} title={OF_PEOPLE.includes(name) ? "Counted over the entire run" : undefined}>
            <legend>{title}</legend>
            {all.slice(0, Math.max(SHOWN, chosen.length)).map((each) => (
              <label key={each.value} className={styles.choice}>
                <input type="checkbox" checked={chosen.includes(each.value)} onChange={() => onChange(toggled(query, name, each.value))} />
                <span className={styles.choiceName}>{visible(each.label)}</span>
                <span className={styles.choiceCount}>{count(each.groups)}</span>
              </label>
            ))}
          </fieldset>
        );
      })}
      <Histogram
        label="Mean score"
        bins={facets?.histograms.score}
        least={query.score_min}
        most={query.score_max}
        onChange={setRange("score")}
      />
      <Histogram
        label="Longest sequence, tokens"
        bins={facets?.histograms.length}
        least={query.length_min}
        most={query.length_max}
        onChange={setRange("length")}
      />
      <Histogram
        label="Policy step"
        bins={facets?.histograms.version}
        least={query.version_min}
        most={query.version_max}
        onChange={setRange("version")}
      />
      <Histogram
        label="Train step (batch)"
        bins={facets?.histograms.step}
        least={query.step_min}
        most={query.step_max}
        onChange={setRange("step")}
      />
    </>
  );
}
