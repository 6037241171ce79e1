/** The presets of the launch form: start from one, save the form as one, delete one. */

import { Badge, Group, Radio, SimpleGrid, Space, Stack, TextInput } from "@mantine/core";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { ApiProblem } from "@/api/client";
import { ReasonDialog } from "@/components/Dialog";
import { TextButton } from "@/components/panels";
import { visible } from "@/format";
import { type Access, type SavedPreset, useDeletePreset, useSavePreset } from "@/forms/api";
import { ACCESS, needsOf, type StartPreset } from "@/forms/launch";
import type { Config } from "@/forms/schema";
import css from "./launch.module.css";

function DeletePreset({ preset, onClose }: { preset: SavedPreset; onClose: () => void }) {
  const remove = useDeletePreset();
  const navigate = useNavigate({ from: "/runs/new" });
  return (
    <ReasonDialog
      title={`Delete the preset ${preset.name}?`}
      asking={remove}
      refused="Preset not deleted"
      submit="Delete"
      destroys
      onSubmit={(reason) =>
        remove.mutate(
          { name: preset.name, reason },
          { onSuccess: () => void navigate({ search: ({ project }) => ({ project }) }).then(onClose) },
        )
      }
      onClose={onClose}
    >
      The preset is no longer available. Runs launched from it keep their configuration; the Django admin keeps a record.
    </ReasonDialog>
  );
}

/** The presets that the form may start from; a saved one can be deleted once it is chosen. */
export function PresetCards({ presets, chosen }: { presets: StartPreset[]; chosen: StartPreset | undefined }) {
  const [isDeleting, setDeleting] = useState(false);
  const saved = chosen?.saved;
  return (
    <section aria-label="Presets">
      <Group justify="space-between" align="baseline" mb="xs">
        <h2>Start from a preset</h2>
        {saved && (
          <span className="small soft">
            {ACCESS[saved.access].label}, saved by {visible(saved.changed_by.replace(/^user:/, ""))}{" "}
            {saved.may_change && <TextButton onClick={() => setDeleting(true)}>Delete {saved.name}…</TextButton>}
          </span>
        )}
      </Group>
      <SimpleGrid component="ul" cols={{ base: 1, xs: 2, lg: 3 }} m={0} p={0} style={{ listStyle: "none" }}>
        {presets.map(({ name, title, config, saved: kept }) => (
          <li key={name}>
            <Link
              from="/runs/new"
              to="/runs/new"
              search={({ project }) => ({ project, preset: name })}
              className={css.card}
              aria-current={name === chosen?.name ? "page" : undefined}
              data-preset={name}
            >
              <Group component="span" gap="xs">
                <b className="anywhere">{visible(name)}</b>
                <Space flex={1} />
                <Badge>{config.language ? "language" : "fleet"}</Badge> {kept && <Badge>saved</Badge>}
              </Group>
              <span className="small soft anywhere">{visible(kept ? kept.description : `${title}.`)}</span>
              <span className="tiny faint anywhere">Needs {visible(needsOf(config))}</span>
            </Link>
          </li>
        ))}
      </SimpleGrid>
      {isDeleting && saved && <DeletePreset preset={saved} onClose={() => setDeleting(false)} />}
    </section>
  );
}

type SaveProps = {
  /** The form's full configuration. */
  config: Config;
  /** The saved preset that the form started from. */
  from: SavedPreset | undefined;
  saved: SavedPreset[];
  onSaved: () => void;
  onClose: () => void;
};

/** Save the form as a preset, or replace an existing preset. */
export function SavePreset({ config, from, saved, onSaved, onClose }: SaveProps) {
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
