import { visible } from "@/format";
import { type Change, leavesOf, valueText } from "@/pages/launch/changes";

const SIGNS = { added: "+", removed: "−", changed: "~", invalid: "!" } as const;

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

/** Further facts and actions of the changes on a form. */
export type ChangeNotes = {
  /** The reason why the field of a path does not apply; empty if it does. */
  whyHidden: (path: string) => string;
  onReset: (path: string) => void;
  onGo: (path: string) => void;
};

function Outcome({ change: { kind, before, after } }: { change: Change }) {
  if (kind === "invalid") return <span className="bad">No valid value: {visible(valueText(after))}</span>;
  return (
    <>
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
    </>
  );
}

/** A note below a changed field that does not apply; its value is part of the configuration. */
function HiddenNote({ path, notes }: { path: string; notes: ChangeNotes }) {
  const why = notes.whyHidden(path);
  if (!why) return null;
  return (
    <div className="tiny held">
      Hidden and without effect: applies if {visible(why)}.{" "}
      <button type="button" className="link-button" onClick={() => notes.onReset(path)}>
        Reset
      </button>
    </div>
  );
}

/** The changed fields, with their values before and after. */
export function ChangeList({ changes, from, notes }: { changes: Change[]; from: string; notes?: ChangeNotes }) {
  if (changes.length === 0) return <p className="faint small">No changes from {from}.</p>;
  return (
    <table className="table diff" aria-label={`Changes from ${from}`}>
      <tbody>
        {changes.map((change) => (
          <tr key={change.path} data-change={change.kind} data-path={change.path}>
            <td className={`diff-sign diff-${change.kind}`}>
              <span role="img" aria-label={change.kind}>
                {SIGNS[change.kind]}
              </span>
            </td>
            <td>
              <div className="mono tiny anywhere">
                {notes && !notes.whyHidden(change.path) ? (
                  <button type="button" className="link-button" onClick={() => notes.onGo(change.path)}>
                    {change.path}
                  </button>
                ) : (
                  change.path
                )}
              </div>
              <div className="small anywhere">
                <Outcome change={change} />
              </div>
              {notes && <HiddenNote path={change.path} notes={notes} />}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
