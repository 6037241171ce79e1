import { Radio, Stack, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { ApiProblem } from "@/api/problems";
import { ReasonDialog } from "@/components/ReasonDialog";
import { visible } from "@/format";
import { type Access, type SavedPreset, useSavePreset } from "@/forms/api";
import type { Config } from "@/forms/schema";
import { ACCESS } from "@/forms/startPresets";

type Props = {
  /** The form's full configuration. */
  config: Config;
  /** The saved preset that the form started from. */
  from: SavedPreset | undefined;
  saved: SavedPreset[];
  onSaved: () => void;
  onClose: () => void;
};

/** Save the form as a preset, or replace an existing preset. */
export function SavePreset({ config, from, saved, onSaved, onClose }: Props) {
  const navigate = useNavigate({ from: "/runs/new" });
  const save = useSavePreset();
  const mine = from?.may_change ? from : undefined;
  const [name, setName] = useState(mine?.name ?? "");
  const [description, setDescription] = useState(mine?.description ?? "");
  const [access, setAccess] = useState<Access>(mine?.access ?? "private");
  const there = saved.find((each) => each.name === name);
  const isTaken = there !== undefined && !there.may_change;
  const wrong = save.error instanceof ApiProblem ? save.error.fields.find(({ field }) => field === "name")?.message : undefined;
  const done = () => {
    onSaved();
    onClose();
    void navigate({ search: ({ project }) => ({ project, preset: name }) });
  };
  return (
    <ReasonDialog
      title="Save as preset"
      asking={save}
      refused="Preset not saved"
      submit={there ? "Replace" : "Save"}
      isReady={name !== "" && !isTaken}
      onSubmit={(reason) =>
        save.mutate({ name, description, access, config, reason, revision: there?.revision ?? null }, { onSuccess: done })
      }
      onClose={onClose}
    >
      <Stack gap="md">
        <TextInput
          label="Name"
          description={there?.may_change ? "A preset with this name exists and will be replaced." : "Letters, digits, - and _."}
          error={
            isTaken
              ? `${visible(there.owner ?? "A token")} owns a preset with this name, and you may not change it.`
              : wrong && visible(wrong)
          }
          required
          data-autofocus
          autoComplete="off"
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <TextInput
          label="Description"
          maxLength={300}
          value={description}
          onChange={(event) => setDescription(event.currentTarget.value)}
        />
        <Radio.Group label="Access" value={access} onChange={(value) => setAccess(value as Access)}>
          <Stack gap="xs" mt="xs">
            {Object.entries(ACCESS).map(([value, { label, means }]) => (
              <Radio key={value} value={value} label={label} description={means} />
            ))}
          </Stack>
        </Radio.Group>
        <p className="small soft">Saves all fields except the run's name. Presets with text that looks like a secret are refused.</p>
      </Stack>
    </ReasonDialog>
  );
}
