import { Button, Group, Paper, Space } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { KeyHint } from "@/components/inline";
import { Boundary } from "@/components/panels";
import styles from "@/pages/viewer/viewer.module.css";
import type { SampleSearch } from "@/samples/search";
import { useShortcuts } from "@/shell/keyboard";

type Props = {
  run: string;
  /** Accessible name of the page's article. */
  label: string;
  title: ReactNode;
  /** Filters of the originating list. */
  list?: SampleSearch;
  /** State and flags, beside the title. */
  chips?: ReactNode;
  actions?: ReactNode;
  /** Choice of the shown content, on one line if it fits. */
  bar?: ReactNode;
  /** Facts and marks, beside the content in wide windows and below it in others. */
  aside: ReactNode;
  children: ReactNode;
};

/** The layout of a group, an episode and a fragment: one line of title and actions, then the content. */
export function ViewerLayout({ run, label, title, list, chips, actions, bar, aside, children }: Props) {
  return (
    <article aria-label={label} className={styles.viewer}>
      <Group gap="xs">
        <h2 className={styles.title}>
          <Link to="/runs/$name/trajectories" params={{ name: run }} search={list}>
            Samples
          </Link>{" "}
          <span className="faint" aria-hidden="true">
            /
          </span>{" "}
          {title}
        </h2>
        {chips}
        <Space flex={1} />
        {actions}
      </Group>
      {bar && (
        <div className={styles.bar}>
          <Boundary part="Panel">{bar}</Boundary>
        </div>
      )}
      <div className={styles.columns}>
        <div className={styles.content}>
          <Boundary part="View">{children}</Boundary>
        </div>
        <Paper className={styles.aside} component="aside" aria-label="Details">
          <Boundary part="Panel">{aside}</Boundary>
        </Paper>
      </div>
    </article>
  );
}

/** The way to a neighbour: its name, its key, and what it does if there is one. */
type Way = [words: string, key: string, go: (() => void) | undefined];

/** Buttons for the element before and the one after, with their shortcuts. */
export function Neighbours({ ways }: { ways: [before: Way, after: Way] }) {
  useShortcuts(Object.fromEntries(ways.map(([, key, go]) => [key, () => go?.()])));
  return (
    <Button.Group>
      {ways.map(([words, key, go]) => (
        <Button key={key} size="compact-sm" variant="default" disabled={!go} onClick={go} rightSection={<KeyHint>{key}</KeyHint>}>
          {words}
        </Button>
      ))}
    </Button.Group>
  );
}
