import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Chart } from "@/charts/Chart";
import { drawn } from "@/charts/lines";
import { runLines } from "@/charts/runLines";
import { ErrorState } from "@/components/ErrorState";
import { Moment } from "@/components/Moment";
import { Skeletons } from "@/components/Skeletons";
import { duration, number, utc, visible } from "@/format";
import { type Draft, isCompared, type PreviewedRun, previewQuery } from "@/pages/alerts/api";
import css from "./rules.module.css";

const SPANS = [
  { value: "1", label: "last hour" },
  { value: "6", label: "last 6 hours" },
  { value: "24", label: "last day" },
  { value: "168", label: "last 7 days" },
  { value: "720", label: "last 30 days" },
];
const CHART_HEIGHT = 210;
const SHOWN = 4;

const seconds = (iso: string): number => Date.parse(iso) / 1000;

/** How often the rule would have fired, as the end of a sentence. */
function Often({ times }: { times: number }) {
  if (times === 0)
    return (
      <>
        the rule would <b>not</b> have fired
      </>
    );
  return (
    <>
      the rule would have fired <b>{times === 1 ? "once" : `${number(times)} times`}</b>
    </>
  );
}

/** Preview of a rule for one run, as text and on its curve. */
function RunPreview({
  previewed,
  condition,
  threshold,
  onLevel,
}: {
  previewed: PreviewedRun;
  condition: string;
  threshold: number | null;
  onLevel: (level: number) => void;
}) {
  const shown = useMemo(() => drawn([previewed.line]), [previewed.line]);
  const end = seconds(previewed.ended_at);
  const breaches = previewed.fired.map(({ raised_at, ended_at }) => ({ from: seconds(raised_at), to: ended_at ? seconds(ended_at) : end }));
  return (
    <>
      <p className={css.result} role="status">
        In {visible(previewed.run)} <Often times={previewed.fired.length} />
        {previewed.is_watched ? (
          ""
        ) : (
          <>
            {" "}
            in this period before its last sample, at <Moment at={previewed.ended_at} />. The rule is not evaluated now: the run is neither
            running nor draining
          </>
        )}
        .
      </p>
      <Chart
        name={`${visible(previewed.line.name)} of ${visible(previewed.run)}, ${condition}`}
        x={shown.x}
        isTime
        xLabel="time"
        lines={runLines([previewed.run], shown.last, { smooth: 0 })}
        band={shown.band ? { ...shown.band, label: "min – max" } : undefined}
        height={CHART_HEIGHT}
        threshold={threshold ?? undefined}
        breaches={breaches}
        onValue={onLevel}
        empty="No samples in this period."
      />
      <ul className={css.fired}>
        {previewed.fired
          .slice(-SHOWN)
          .reverse()
          .map(({ began_at, raised_at, ended_at }) => (
            <li key={raised_at}>
              fired <Moment at={raised_at} />
              <span className="faint" title={utc(began_at)}>
                {" "}
                · {ended_at ? `cleared after ${duration(seconds(ended_at) - seconds(raised_at))}` : "ongoing"}
              </span>
            </li>
          ))}
        {previewed.fired.length > SHOWN && <li className="faint">{number(previewed.fired.length - SHOWN)} earlier</li>}
      </ul>
      {previewed.accuracy_seconds > 0 && (
        <p className="faint tiny">Computed from aggregated samples: accurate to {duration(previewed.accuracy_seconds)}.</p>
      )}
    </>
  );
}

type Props = { draft: Draft; isReady: boolean; onLevel: (level: number) => void };

/** When a rule would have fired on recorded data. */
export function Preview({ draft, isReady, onLevel }: Props) {
  const [hours, setHours] = useState("24");
  const [run, setRun] = useState<string | null>(null);
  const { data, error, isFetching } = useQuery(previewQuery(draft, Number(hours), isReady));
  const results = data?.results ?? [];
  const previewed = results.find((each) => each.run === run) ?? results[0];
  return (
    <section aria-label="Preview on recorded data" className={css.preview}>
      <div className={css.previewHead}>
        <h3>Preview</h3>
        <span className="spacer" />
        {results.length > 1 && (
          <Select
            size="xs"
            aria-label="Run of the preview"
            data={results.map((each) => each.run)}
            value={previewed?.run ?? null}
            onChange={setRun}
          />
        )}
        <Select
          size="xs"
          aria-label="Period of the preview"
          allowDeselect={false}
          data={SPANS}
          value={hours}
          onChange={(value) => value && setHours(value)}
        />
      </div>
      {!isReady && <p className="faint">Choose a metric and a condition to see a preview.</p>}
      {isReady && error && <ErrorState title="Preview unavailable" error={error} />}
      {isReady && !data && !error && <Skeletons heights={[CHART_HEIGHT]} />}
      {isReady && data && !previewed && (
        <p className="faint">
          {data.runs === 0
            ? "No run matches yet; the rule applies once one does."
            : "No matching run has recorded this metric yet; the rule applies once one does."}
        </p>
      )}
      {isReady && data && previewed && (
        <div data-fetching={isFetching || undefined}>
          <RunPreview previewed={previewed} condition={data.condition} threshold={draft.threshold} onLevel={onLevel} />
          <p className="faint tiny">
            {isCompared(draft.comparator) && "Click the chart to set the threshold. "}
            {data.measured > 1 &&
              `${number(data.measured)} of ${number(data.runs)} matching runs have this metric${data.measured > results.length ? `; the newest ${results.length} are shown` : ""}.`}
          </p>
        </div>
      )}
    </section>
  );
}
