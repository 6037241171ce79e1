import { visible } from "@/format";
import { type Change, valueText } from "@/pages/launch/changes";

const SIGNS = { added: "+", removed: "−", changed: "~" } as const;

/** Only what differs, each with what it was. */
export function ChangeList({ changes, from }: { changes: Change[]; from: string }) {
  if (changes.length === 0) return <p className="faint small">Nothing differs from {from}.</p>;
  return (
    <table className="table diff" aria-label={`What differs from ${from}`}>
      <tbody>
        {changes.map(({ path, kind, before, after }) => (
          <tr key={path} data-change={kind} data-path={path}>
            <td className={`diff-sign diff-${kind}`}>
              <span role="img" aria-label={kind}>{SIGNS[kind]}</span>
            </td>
            <td>
              <div className="mono tiny anywhere">{path}</div>
              <div className="small anywhere">
                {kind !== "added" && <del className="faint">{visible(valueText(before))}</del>}
                {kind === "changed" && <span className="faint"> → </span>}
                {kind !== "removed" && <ins>{visible(valueText(after))}</ins>}
              </div>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
