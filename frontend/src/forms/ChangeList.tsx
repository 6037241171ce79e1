import { Text } from "@mantine/core";
import { TABLE } from "@/components/Table";
import { visible } from "@/format";
import { type Change, leavesOf, valueText } from "@/forms/launch";

const SIGNS = { added: "+", removed: "−", changed: "~" } as const;

const COLOURS = { added: "good", removed: "bad", changed: "held" } as const;

/** A value; fields of an object are listed by name on one line. */
function Value({ value }: { value: unknown }) {
  const leaves = leavesOf(value);
  if (!leaves) return visible(valueText(value));
  return leaves.map(([path, leaf]) => (
    <span key={path}>
      <span className="faint">{visible(path)}</span> {visible(valueText(leaf))}{" "}
    </span>
  ));
}

function Outcome({ change: { kind, before, after } }: { change: Change }) {
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

/** The changed fields, with their values before and after. */
export function ChangeList({ changes, from }: { changes: Change[]; from: string }) {
  if (changes.length === 0) return <p className="faint small">No changes from {from}.</p>;
  return (
    <table className={TABLE} aria-label={`Changes from ${from}`}>
      <tbody>
        {changes.map((change) => (
          <tr key={change.path} data-change={change.kind} data-path={change.path}>
            <td>
              <Text span fw="bold" c={COLOURS[change.kind]} role="img" aria-label={change.kind}>
                {SIGNS[change.kind]}
              </Text>
            </td>
            <td>
              <div className="mono tiny anywhere">{change.path}</div>
              <div className="small anywhere">
                <Outcome change={change} />
              </div>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
