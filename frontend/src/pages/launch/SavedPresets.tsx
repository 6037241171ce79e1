import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { Age } from "@/components/Age";
import { rolldeckCommand } from "@/components/commandToken";
import { Dialog } from "@/components/Dialog";
import { EmptyState } from "@/components/EmptyState";
import { ReasonDialog } from "@/components/ReasonDialog";
import { visible } from "@/format";
import { type SavedPreset, useDeletePreset } from "@/forms/api";
import { ACCESS } from "@/forms/startPresets";

function Delete({ preset, onClose }: { preset: SavedPreset; onClose: () => void }) {
  const remove = useDeletePreset();
  return (
    <ReasonDialog
      title={`Delete the preset ${preset.name}?`}
      asking={remove}
      refused="Preset not deleted"
      submit="Delete"
      destroys
      onSubmit={(reason) => remove.mutate({ name: preset.name, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p className="soft">
        The preset is no longer available. Runs launched from it keep their configuration; the Django admin keeps a record.
      </p>
    </ReasonDialog>
  );
}

function Line({ preset, onUse, onDelete }: { preset: SavedPreset; onUse: () => void; onDelete: () => void }) {
  return (
    <tr data-preset={preset.name}>
      <td className="anywhere">
        <Link to="/runs/new" search={{ preset: preset.name }} className="strong" onClick={onUse}>
          {preset.name}
        </Link>
        {preset.description && <div className="small soft">{visible(preset.description)}</div>}
        <div className="tiny faint">
          {preset.kind} · {ACCESS[preset.access].label.toLowerCase()} · saved <Age at={preset.changed_at} suffix=" ago" /> by{" "}
          {visible(preset.changed_by.replace(/^user:/, ""))}
        </div>
      </td>
      <td className="num">
        {preset.may_change && (
          <Button size="compact-xs" variant="default" aria-label={`Delete ${preset.name}`} onClick={onDelete}>
            Delete
          </Button>
        )}
      </td>
    </tr>
  );
}

/** Saved presets: start from one, or delete it. */
export function SavedPresets({ presets, onClose }: { presets: SavedPreset[]; onClose: () => void }) {
  const [asked, setAsked] = useState<SavedPreset | null>(null);
  if (asked) return <Delete preset={asked} onClose={() => setAsked(null)} />;
  return (
    <Dialog onClose={onClose} title="Saved presets" size="lg">
      {presets.length === 0 ? (
        <EmptyState title="No saved presets" command={rolldeckCommand("api POST presets name=mine config='{}'")} needs={{ scope: "user" }}>
          Fill in the form, then choose Save as preset: it stores all fields except the run's name.
        </EmptyState>
      ) : (
        <table className="table" aria-label="Saved presets">
          <tbody>
            {presets.map((preset) => (
              <Line key={preset.name} preset={preset} onUse={onClose} onDelete={() => setAsked(preset)} />
            ))}
          </tbody>
        </table>
      )}
    </Dialog>
  );
}
