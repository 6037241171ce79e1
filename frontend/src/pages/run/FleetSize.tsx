import { Button, Group, Modal, NumberInput, Tooltip } from "@mantine/core";
import { useState } from "react";
import { useResize } from "@/api/runs";
import { useMayOperate } from "@/api/session";
import type { RunDetail } from "@/api/types";
import { ErrorState } from "@/components/ErrorState";
import { MOST_WORKERS, whatHappens } from "@/pages/run/resizing";

type ResizeProps = { name: string; now: number; onClose: () => void };

function Resize({ name, now, onClose }: ResizeProps) {
  const [wanted, setWanted] = useState(now);
  const resize = useResize(name);
  return (
    <Modal opened onClose={onClose} title={`Workers of ${name}`}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          resize.mutate(wanted, { onSuccess: onClose });
        }}
      >
        <NumberInput
          label="Workers"
          description={whatHappens(now, wanted)}
          value={wanted}
          min={1}
          max={MOST_WORKERS}
          allowDecimal={false}
          clampBehavior="strict"
          data-autofocus
          onChange={(value) => setWanted(Number(value) || now)}
        />
        {resize.error && <ErrorState title="The fleet stays as it is" error={resize.error} />}
        <Group justify="flex-end" mt="lg">
          <Button variant="default" onClick={onClose}>
            Leave it as it is
          </Button>
          <Button type="submit" disabled={wanted === now || resize.isPending}>
            {resize.isPending ? "Asking…" : "Resize"}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}

/** How many workers are wanted, for operators to change while the run goes on. */
export function FleetSize({ run }: { run: RunDetail }) {
  const mayOperate = useMayOperate();
  const [open, setOpen] = useState(false);
  if (run.num_workers === null) return null;
  return (
    <>
      <Tooltip label={mayOperate ? "Have more or fewer workers from now on." : "You may look; this takes an operator."}>
        <Button size="compact-sm" variant="default" disabled={!mayOperate} data-resize onClick={() => setOpen(true)}>
          {run.num_workers} wanted
        </Button>
      </Tooltip>
      {open && <Resize name={run.name} now={run.num_workers} onClose={() => setOpen(false)} />}
    </>
  );
}
