import { Kbd } from "@mantine/core";
import { Dialog } from "@/components/Dialog";
import { KEYED_TABS } from "@/pages/run/tabs";
import { PLACES } from "@/shell/places";

type Key = [keys: string[], meaning: string];

const PARTS: { title: string; keys: Key[] }[] = [
  {
    title: "Anywhere",
    keys: [
      [["?"], "This help"],
      [["⌘ K"], "Go to anything, or do it; Ctrl K where there is no ⌘"],
      [["l"], "Let the page stand still, or be live again"],
      [["d"], "Rows closer together, or further apart"],
      [["Shift", "D"], "Switch between light and dark"],
      [["Esc"], "Close what is open"],
    ],
  },
  { title: "Go to", keys: PLACES.map(({ key, label }): Key => [["g", key], label]) },
  { title: "Of the run that is open, or was last", keys: KEYED_TABS.map(({ key, label }): Key => [["g", key], label]) },
  {
    title: "In a list",
    keys: [
      [["/"], "Filter it"],
      [["j"], "Next row"],
      [["k"], "Row before"],
      [["Enter"], "Open the row"],
      [["1", "…", "9"], "Of groups: label the row, or all that are chosen; the same again, or 0, clears it"],
      [["b"], "Of groups: pin the row"],
    ],
  },
  {
    title: "On a run",
    keys: [
      [["p"], "Pause it, or resume it, with a reason"],
      [["."], "Look further back: 15 minutes, an hour, six, a day, all of it"],
      [["←", "→"], "On a chart: move the cursor; Ctrl C copies what is there"],
      [["Enter"], "On a chart: what lies behind the point"],
    ],
  },
  {
    title: "On a group or a fragment",
    keys: [
      [["j", "k"], "Next group, group before"],
      [["[", "]"], "Sequence, or fragment of its slot: before, next"],
      [["c"], "Colour tokens by something else"],
      [["n"], "Next surprising token, or end of an episode; p goes back"],
      [["x"], "Export the group"],
      [["Esc"], "Back to the list"],
      [["1", "…", "9"], "Label the group; the same again, or 0, clears it"],
      [["b", "m", "s"], "Pin the group, write a note on it, add it to a set"],
    ],
  },
];

function Part({ title, keys }: (typeof PARTS)[number]) {
  return (
    <section className="keys">
      <h3>{title}</h3>
      <dl>
        {keys.map(([each, meaning]) => (
          <div key={meaning}>
            <dt>
              {each.map((key) => (
                <Kbd key={key}>{key}</Kbd>
              ))}
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

/** Every key that the deck knows. */
export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog onClose={onClose} title="Keyboard" size="xl">
      <div className="keys-columns">
        {PARTS.map((part) => (
          <Part key={part.title} {...part} />
        ))}
      </div>
    </Dialog>
  );
}
