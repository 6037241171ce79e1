import { Box, Group, Kbd } from "@mantine/core";
import { Dialog } from "@/components/Dialog";
import { addressOfGuide } from "@/guide";
import { KEYED_TABS } from "@/pages/run/tabs";
import { MAIN_PAGES } from "@/shell/mainPages";

type Key = [keys: string[], meaning: string];

const PARTS: { title: string; keys: Key[] }[] = [
  {
    title: "All pages",
    keys: [
      [["?"], "Show this help"],
      [["⌘ K"], "Open the command palette; Ctrl K without a ⌘ key"],
      [["l"], "Pause or resume live updates"],
      [["Shift", "D"], "Toggle light and dark theme"],
      [["Esc"], "Close the topmost panel"],
    ],
  },
  { title: "Go to", keys: [...MAIN_PAGES.map(({ key, label }): Key => [["g", key], label]), [["g", "d"], "Guide"]] },
  { title: "On the current or last opened run", keys: KEYED_TABS.map(({ key, label }): Key => [["g", key], label]) },
  {
    title: "In lists",
    keys: [
      [["/"], "Focus the filter"],
      [["j"], "Next row"],
      [["k"], "Previous row"],
      [["Enter"], "Open the row"],
    ],
  },
  {
    title: "On a run",
    keys: [
      [["p"], "Pause or resume, with a reason"],
      [["."], "Extend the time range: 15 min, 1 h, 6 h, 1 d, entire run"],
      [["←", "→"], "On a chart: move the cursor; Ctrl C copies the values"],
      [["Enter"], "On a chart: show the details of the point"],
    ],
  },
  {
    title: "On a group or a fragment",
    keys: [
      [["j", "k"], "Next or previous group"],
      [["[", "]"], "Previous or next sequence, or fragment of the slot"],
      [["c"], "Change the token colours"],
      [["n"], "Next surprising token; p for the previous one"],
      [["x"], "Export the group"],
      [["Esc"], "Back to the list"],
      [["t"], "Edit the tags of the group"],
    ],
  },
];

/** All keyboard shortcuts. */
export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog onClose={onClose} title="Keyboard shortcuts" size="xl">
      <Box mb="md" style={{ columns: "19rem", columnGap: "2rem" }}>
        {PARTS.map(({ title, keys }) => (
          <Box key={title} component="section" mb="md" style={{ breakInside: "avoid" }}>
            <h3>{title}</h3>
            {keys.map(([each, meaning]) => (
              <Group key={meaning} gap="xs" wrap="nowrap" py={3}>
                <Group gap={4} w="5.2rem" wrap="nowrap">
                  {each.map((key) => (
                    <Kbd key={key}>{key}</Kbd>
                  ))}
                </Group>
                {meaning}
              </Group>
            ))}
          </Box>
        ))}
      </Box>
      <a href={addressOfGuide("howto/settings-and-keys")}>Settings and shortcuts in the guide</a>
    </Dialog>
  );
}
