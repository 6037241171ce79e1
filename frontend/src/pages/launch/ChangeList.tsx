import { visible } from "@/format";
import { type Change, leavesOf, valueText } from "@/pages/launch/changes";

const SIGNS = { added: "+", removed: "−", changed: "~" } as const;

/** A value; fields of an object are listed by name on one line. */
function Value({ value }: { value: unknown }) {
  const leaves = leavesOf(value);
  if (!leaves) return visible(valueText(value));
  return leaves.map(([path, leaf]) => (
    <span key={path} className="diff-leaf">
      <span className="faint">{visible(path)}</span> {visible(valueText(leaf))}
    </span>
  ));
}

/** The changed fields, with their values before and after. */
export function ChangeList({ changes, from }: { changes: Change[]; from: string }) {
  if (changes.length === 0) return <p className="faint small">No changes from {from}.</p>;
  return (
    <table className="table diff" aria-label={`Changes from ${from}`}>
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
