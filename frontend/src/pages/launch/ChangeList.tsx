import { visible } from "@/format";
import { type Change, leavesOf, valueText } from "@/pages/launch/changes";

const SIGNS = { added: "+", removed: "−", changed: "~" } as const;

/** A value; of an object each field by its name, so that it reads as a line and not as code. */
function Value({ value }: { value: unknown }) {
  const leaves = leavesOf(value);
  if (!leaves) return visible(valueText(value));
  return leaves.map(([path, leaf]) => (
    <span key={path} className="diff-leaf">
      <span className="faint">{visible(path)}</span> {visible(valueText(leaf))}
    </span>
  ));
}

/** Only what differs, each with what it was. */
export function ChangeList({ changes, from }: { changes: Change[]; from: string }) {
  if (changes.length === 0) return <p className="faint small">Nothing differs from {from}.</p>;
  return (
    <table className="table diff" aria-label={`What differs from ${from}`}>
      <tbody>
        {changes.map(({ path, kind, before, after }) => (
          <tr key={path} data-change={kind} data-path={path}>
            <td className={`diff-sign diff-${kind}`}>
              <span role="img" aria-label={kind}>
                {SIGNS[kind]}
              </span>
            </td>
            <td>
              <div className="mono tiny anywhere">{path}</div>
              <div className="small anywhere">
                {kind !== "added" && (
                  <del className="faint">
                    <Value value={before} />
                  </del>
                )}
                {kind === "changed" && <span className="faint"> → </span>}
                {kind !== "removed" && (
                  <ins>
                    <Value value={after} />
                  </ins>
                )}
              </div>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
