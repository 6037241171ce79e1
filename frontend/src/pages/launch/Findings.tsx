import type { RunCheck } from "@/api/types";
import { Chip } from "@/components/chips";
import { visible } from "@/format";
import css from "@/pages/launch/launch.module.css";

const SIGNS = { ok: "✓", info: "i", warning: "▲", error: "✕" } as const;
const TONES = { ok: "good", info: "quiet", warning: "held", error: "bad" } as const;
const RESULTS = {
  ready: { tone: "good", sign: "✓", words: "Ready to launch" },
  risky: { tone: "held", sign: "▲", words: "Launchable, with warnings" },
  refused: { tone: "bad", sign: "✕", words: "Cannot launch, or would never serve a batch" },
} as const;

type Props = { check: RunCheck; isOld: boolean; onGo: (path: string) => void };

/** Findings of a dry run, each with its remedy. */
export function Findings({ check, isOld, onGo }: Props) {
  const { tone, sign, words } = RESULTS[check.result];
  return (
    <section aria-label="Check" data-result={check.result} tabIndex={-1}>
      <p className={css.checkResult} role="status">
        <Chip tone={tone} sign={sign}>
          {words}
        </Chip>{" "}
        <span className="faint tiny">{isOld ? "outdated: the form has changed" : `in ${check.seconds.toFixed(1)} s`}</span>
      </p>
      <ul className={css.findings}>
        {check.findings.map((each) => (
          <li key={each.subject + each.field + each.message} data-level={each.level} data-finding={each.field}>
            <span className={`${css.findingSign} tone-${TONES[each.level]}`} role="img" aria-label={each.level}>
              {SIGNS[each.level]}
            </span>
            <div className="anywhere">
              <b>{each.subject}</b> <span className="soft">{visible(each.message)}</span>
              {each.remedy && <div className="small">{visible(each.remedy)}</div>}
              {each.field && each.level !== "ok" && (
                <button type="button" className="link-button mono tiny" onClick={() => onGo(each.field)}>
                  {each.field}
                </button>
              )}
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}
