import { Kbd, Modal } from "@mantine/core";
import { PLACES } from "@/shell/places";

const KEYS: [string[], string][] = [
  [["?"], "This help"],
  [["⌘ K"], "Go to anything, or do it; Ctrl K where there is no ⌘"],
  ...PLACES.map(({ key, label }): [string[], string] => [["g", key], `Go to: ${label}`]),
  [["/"], "Filter the list"],
  [["j"], "Next row, or group"],
  [["k"], "Row, or group, before"],
  [["Enter"], "Open the row"],
  [["p"], "On a run: pause it, or resume it"],
  [["[", "]"], "On a group: sequence before, next sequence"],
  [["c"], "On a group: colour tokens by something else"],
  [["n"], "On a group: next surprising token; p goes back"],
  [["←", "→"], "On a chart: move the cursor; Ctrl C copies what is there"],
  [["x"], "On a group: export it"],
  [["Shift", "D"], "Switch between light and dark"],
  [["Esc"], "Close what is open"],
];

export function Help({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  return (
    <Modal opened={opened} onClose={onClose} title="Keyboard">
      <table className="table">
        <tbody>
          {KEYS.map(([keys, meaning]) => (
            <tr key={meaning}>
              <td style={{ whiteSpace: "nowrap" }}>
                {keys.map((key) => (
                  <Kbd key={key} mr={4}>
                    {key}
                  </Kbd>
                ))}
              </td>
              <td>{meaning}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Modal>
  );
}
