import { Radio, Stack, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { type Access, type SavedPreset, useSavePreset } from "@/api/presets";
import { ApiProblem } from "@/api/problems";
import { ReasonDialog } from "@/components/ReasonDialog";
import { visible } from "@/format";
import { keepDraft } from "@/pages/launch/draft";
import { ACCESS } from "@/pages/launch/starts";
import { type Config, NAME, NAME_HELP } from "@/pages/launch/useLaunch";

type Props = {
  /** The whole configuration as it stands in the form. */
  config: Config;
  runName: string;
  /** Under what the form's draft is kept. */
  start: string;
  /** The saved preset that the form began with. */
  from: SavedPreset | undefined;
  saved: SavedPreset[];
  onClose: () => void;
};

/** Keep what stands in the form under a name, or put it in the place of a preset that there is. */
export function SavePreset({ config, runName, start, from, saved, onClose }: Props) {
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
    // It is all in the preset now: nothing of it is an unfinished form any more.
    keepDraft(start, null);
    if (runName) keepDraft(`preset:${name}`, { name: runName, answers: {} });
    onClose();
    void navigate({ search: (old) => ({ view: old.view, preset: name }) });
  };
  return (
    <ReasonDialog
      title="Save as preset"
      asking={save}
      refused="The preset was not saved"
      submit={there ? "Replace" : "Save"}
      isReady={NAME.test(name) && !isTaken}
      onSubmit={(reason) =>
        save.mutate({ name, description, access, config, reason, revision: there?.revision ?? null }, { onSuccess: done })
      }
      onClose={onClose}
    >
      <Stack gap="md">
        <TextInput
          label="Name"
          description={there?.may_change ? "There is one of this name: what is in the form takes its place." : NAME_HELP}
          error={
            isTaken ? `${visible(there.owner ?? "A machine")} has one of this name, and you may not change it.` : wrong && visible(wrong)
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
        <Radio.Group label="Whose it is" value={access} onChange={(value) => setAccess(value as Access)}>
          <Stack gap="xs" mt="xs">
            {Object.entries(ACCESS).map(([value, { label, means }]) => (
              <Radio key={value} value={value} label={label} description={means} />
            ))}
          </Stack>
        </Radio.Group>
        <p className="small soft">
          The whole form goes in but the run's name. Secrets do not: a preset with a text that looks like one is refused.
        </p>
      </Stack>
    </ReasonDialog>
  );
}
