import { ActionIcon, Button, Group, Menu, TextInput } from "@mantine/core";
import { X } from "lucide-react";
import { useState } from "react";
import { Dialog } from "@/components/Dialog";
import type { MenuOf } from "@/components/MenuButton";
import { OpenedMenu } from "@/components/OpenedMenu";
import { visible } from "@/format";
import css from "@/runs/runs.module.css";
import { readViews, saveViews, type View, withView } from "@/runs/savedViews";
import type { RunsSearch } from "@/runs/search";

function NameDialog({ onKeep, onClose }: { onKeep: (name: string) => void; onClose: () => void }) {
  const [name, setName] = useState("");
  return (
    <Dialog onClose={onClose} title="Save view">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onKeep(name);
        }}
      >
        <TextInput
          label="Name"
          description="Filter, order, columns and grouping, stored in this browser. A view with the same name is replaced."
          required
          maxLength={60}
          data-autofocus
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <Group className="dialog-foot" justify="flex-end" mt="lg">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" disabled={!name.trim()}>
            Save
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}

type Props = { look: RunsSearch; onLook: (look: RunsSearch) => void };

/** Saved views of the list. */
export function Views({ target, look, onLook }: MenuOf & Props) {
  const [views, setViews] = useState<View[]>(readViews);
  const [isNaming, setNaming] = useState(false);
  const change = (next: View[]) => {
    setViews(next);
    saveViews(next);
  };
  return (
    <>
      <OpenedMenu target={target} position="bottom-end" width={250}>
        {views.map((view) => (
          <div key={view.name} className={css.view}>
            <Menu.Item onClick={() => onLook(view.look)}>{visible(view.name)}</Menu.Item>
            <ActionIcon
              variant="subtle"
              color="gray"
              size="sm"
              aria-label={`Delete view ${view.name}`}
              onClick={() => change(views.filter(({ name }) => name !== view.name))}
            >
              <X size={14} aria-hidden="true" />
            </ActionIcon>
          </div>
        ))}
        {views.length === 0 && <Menu.Label>No saved views.</Menu.Label>}
        <Menu.Divider />
        <Menu.Item onClick={() => setNaming(true)}>Save this view…</Menu.Item>
      </OpenedMenu>
      {isNaming && (
        <NameDialog
          onKeep={(name) => {
            change(withView(views, name, look));
            setNaming(false);
          }}
          onClose={() => setNaming(false)}
        />
      )}
    </>
  );
}
