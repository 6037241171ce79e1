import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { type Draft, isCompared, type PreviewedRun, previewQuery } from "@/api/alertRules";
import { Chart } from "@/charts/Chart";
import { drawn } from "@/charts/lines";
import { runLines } from "@/charts/runLines";
import { ErrorState } from "@/components/ErrorState";
import { Moment } from "@/components/Moment";
import { Skeletons } from "@/components/Skeletons";
import { duration, number, utc, visible } from "@/format";
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

/** How often it would have fired, as the end of a sentence. */
function Often({ times }: { times: number }) {
  if (times === 0)
    return (
      <>
        it would <b>never</b> have fired
      </>
    );
  return (
    <>
      it would have fired <b>{times === 1 ? "once" : `${number(times)} times`}</b>
    </>
  );
}

/** What a rule would have told of one run, in words and on its curve. */
function Told({
  told,
  words,
  threshold,
  onLevel,
}: {
  told: PreviewedRun;
  words: string;
  threshold: number | null;
  onLevel: (level: number) => void;
}) {
  const shown = useMemo(() => drawn([told.line]), [told.line]);
  const end = seconds(told.ended_at);
  const stretches = told.fired.map(({ raised_at, ended_at }) => ({ from: seconds(raised_at), to: ended_at ? seconds(ended_at) : end }));
  return (
    <>
      <p className={css.verdict} role="status">
        In {visible(told.run)} <Often times={told.fired.length} />
        {told.is_watched ? (
          ""
        ) : (
          <>
            {" "}
            in that time before its last sample, at <Moment at={told.ended_at} />. The run is not watched now: it is neither running nor
            draining
          </>
        )}
        .
      </p>
      <Chart
        name={`${visible(told.line.name)} of ${visible(told.run)}, ${words}`}
        x={shown.x}
        isTime
        xLabel="time"
        lines={runLines([told.run], shown.last, { smooth: 0 })}
        band={shown.band ? { ...shown.band, label: "min – max" } : undefined}
        height={CHART_HEIGHT}
        threshold={threshold ?? undefined}
        stretches={stretches}
        onValue={onLevel}
        empty="No sample in this time."
      />
      <ul className={css.fired}>
        {told.fired
          .slice(-SHOWN)
          .reverse()
          .map(({ began_at, raised_at, ended_at }) => (
            <li key={raised_at}>
              raised <Moment at={raised_at} />
              <span className="faint" title={utc(began_at)}>
                {" "}
                · {ended_at ? `over after ${duration(seconds(ended_at) - seconds(raised_at))}` : "lasts"}
              </span>
            </li>
          ))}
        {told.fired.length > SHOWN && <li className="faint">{number(told.fired.length - SHOWN)} before these</li>}
      </ul>
      {told.accuracy_seconds > 0 && <p className="faint tiny">Told from sums of samples: exact to {duration(told.accuracy_seconds)}.</p>}
    </>
  );
}

type Props = { draft: Draft; isReady: boolean; onLevel: (level: number) => void };

/** When a rule would have raised alerts, had there been it. */
export function Preview({ draft, isReady, onLevel }: Props) {
  const [hours, setHours] = useState("24");
  const [run, setRun] = useState<string | null>(null);
  const { data, error, isFetching } = useQuery(previewQuery(draft, Number(hours), isReady));
  const results = data?.results ?? [];
  const told = results.find((each) => each.run === run) ?? results[0];
  return (
    <section aria-label="Preview on history" className={css.preview}>
      <div className={css.previewHead}>
        <h3>What it would have told</h3>
        <span className="spacer" />
        {results.length > 1 && (
          <Select
            size="xs"
            aria-label="Run of the preview"
            data={results.map((each) => each.run)}
            value={told?.run ?? null}
            onChange={setRun}
          />
        )}
        <Select
          size="xs"
          aria-label="Time of the preview"
          allowDeselect={false}
          data={SPANS}
          value={hours}
          onChange={(value) => value && setHours(value)}
        />
      </div>
      {!isReady && <p className="faint">Name a metric and what it is compared with.</p>}
      {isReady && error && <ErrorState title="There is no preview" error={error} />}
      {isReady && !data && !error && <Skeletons heights={[CHART_HEIGHT]} />}
      {isReady && data && !told && (
        <p className="faint">
          {data.runs === 0
            ? "There is no such run yet; the rule waits for one."
            : "None of these runs has such a metric yet; the rule waits for it."}
        </p>
      )}
      {isReady && data && told && (
        <div data-fetching={isFetching || undefined}>
          <Told told={told} words={data.words} threshold={draft.threshold} onLevel={onLevel} />
          <p className="faint tiny">
            {isCompared(draft.comparator) && "Click the chart at a height to take it as the threshold. "}
            {data.measured > 1 &&
              `${number(data.measured)} of ${number(data.runs)} such runs have this metric${data.measured > results.length ? `, the newest ${results.length} are here` : ""}.`}
          </p>
        </div>
      )}
    </section>
  );
}
