import { useQuery } from "@tanstack/react-query";
import { type Kept, keptQuery } from "@/api/deck";
import { Age } from "@/components/Age";
import { Command } from "@/components/Copying";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { Skeletons } from "@/components/Skeletons";
import { bytes, count, percent } from "@/format";
import { fullness, KEPT_NAMES, keptSettings, keptWords } from "@/pages/settings/kept";
import css from "./settings.module.css";

const BACKUP = "python manage.py backup /backups/today";

function Row({ kept }: { kept: Kept }) {
  const share = fullness(kept);
  const settings = keptSettings(kept);
  return (
    <tr data-kept={kept.what}>
      <td className="anywhere">
        {KEPT_NAMES[kept.what]}
        <div className="faint small">
          {keptWords(kept)}
          {settings.length > 0 && (
            <span className={css.setting} title="The server's environment sets these">
              {" "}
              {settings.join(" ")}
            </span>
          )}
        </div>
      </td>
      <td className="num">
        {bytes(kept.size_bytes)}
        {share !== null && (
          <div className="faint small" title="Of the tightest limit">
            {percent(share)}
          </div>
        )}
      </td>
      <td className="num">
        {kept.is_estimate ? "≈ " : ""}
        {count(kept.count)}
      </td>
      <td className="num">{kept.oldest_at ? <Age at={kept.oldest_at} /> : "–"}</td>
    </tr>
  );
}

/** What the deck keeps, until when, and how large it is now. */
export function KeptPanel() {
  const { data, error } = useQuery(keptQuery);
  return (
    <Panel title="What is kept" note="and how large it is">
      {error && <ErrorState title="What is kept cannot be shown" error={error} />}
      {!data && !error && <Skeletons heights={[200]} />}
      {data && (
        <>
          <div className="table-scroll">
            <table className="table" aria-label="What the deck keeps">
              <thead>
                <tr>
                  <th scope="col">Data</th>
                  <th scope="col" className="num">
                    Size
                  </th>
                  <th scope="col" className="num">
                    How many
                  </th>
                  <th scope="col" className="num">
                    Oldest
                  </th>
                </tr>
              </thead>
              <tbody>
                {data.results.map((each) => (
                  <Row key={each.what} kept={each} />
                ))}
              </tbody>
            </table>
          </div>
          <p className="small soft">
            {data.backed_up_at ? (
              <>
                The deck was last backed up <Age at={data.backed_up_at} suffix=" ago" />.
              </>
            ) : (
              "The deck was never backed up."
            )}{" "}
            While it works, this does it:
          </p>
          <Command text={BACKUP} />
        </>
      )}
    </Panel>
  );
}
