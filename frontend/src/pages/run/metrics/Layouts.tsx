import { Button, Menu, Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useMayOperate } from "@/api/session";
import type { RunDetail } from "@/api/types";
import { ReasonDialog } from "@/components/ReasonDialog";
import { visible } from "@/format";
import { layoutsQuery, type MetricLayout, useDeleteLayout, useSaveLayout } from "@/pages/run/metrics/layoutsApi";
import { isSameView, searchOf, viewOf } from "./layoutSearch";
import type { MetricsSearch } from "./search";

type Share = MetricLayout["share"];
const WHOSE: Record<Share, string> = { mine: "yours", run: "this run", tag: "tag" };

type Props = { run: RunDetail; search: MetricsSearch; change: (more: Partial<MetricsSearch>) => void };

function SaveLayout({ run, search, change, onClose }: Props & { onClose: () => void }) {
  const save = useSaveLayout(run.name);
  const mayOperate = useMayOperate();
  const [name, setName] = useState("");
  const [share, setShare] = useState("mine");
  const shares = [
    { value: "mine", label: "Private, all runs" },
    ...(mayOperate
      ? [
          { value: "run", label: "Everyone, this run" },
          ...run.tags.map((tag) => ({ value: `tag:${tag}`, label: `Everyone, runs tagged ${tag}` })),
        ]
      : []),
  ];
  const send = (reason: string) => {
    const tag = share.startsWith("tag:") ? share.slice(4) : "";
    const layout = { name, share: (tag ? "tag" : share) as Share, tag, view: viewOf(search), reason };
    save.mutate(
      { id: null, layout },
      {
        onSuccess: ({ id }) => {
          change({ layout: id });
          onClose();
        },
      },
    );
  };
  return (
    <ReasonDialog
      title="Save layout"
      submit="Save"
      asking={save}
      refused="Layout not saved"
      isReady={name.trim() !== ""}
      onSubmit={send}
      onClose={onClose}
    >
      <p className="soft">Stores the search, branch, axis, smoothing, pins, log axes and panels, but not the zoom range.</p>
      <TextInput
        label="Name"
        required
        maxLength={60}
        data-autofocus
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <Select mt="sm" label="Share with" allowDeselect={false} data={shares} value={share} onChange={(value) => value && setShare(value)} />
    </ReasonDialog>
  );
}

function DeleteLayout({ run, layout, onClose }: { run: string; layout: MetricLayout; onClose: () => void }) {
  const remove = useDeleteLayout(run);
  return (
    <ReasonDialog
      title={`Delete layout ${visible(layout.name)}?`}
      submit="Delete layout"
      destroys
      asking={remove}
      refused="Layout not deleted"
      onSubmit={(reason) => remove.mutate({ id: layout.id, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p>
        {layout.share === "mine" ? "The layout is private." : "The layout is shared; other users lose it too."} Links that contain all its
        settings keep working.
      </p>
    </ReasonDialog>
  );
}

/** Saved layouts of the metrics tab: the user's own and shared ones. */
export function Layouts({ run, search, change, apply }: Props & { apply: Props["change"] }) {
  const { data: layouts = [] } = useQuery(layoutsQuery(run.name));
  const save = useSaveLayout(run.name);
  const [doing, setDoing] = useState<"save" | "delete" | null>(null);
  const chosen = layouts.find(({ id }) => id === search.layout);
  const isChanged = chosen !== undefined && !isSameView(search, chosen.view);
  const isBare = isSameView(search, {});
  useEffect(() => {
    // A URL with only a layout's id applies the entire layout.
    if (chosen && isBare && isChanged) apply(searchOf(chosen.view));
    // Only on first load: afterwards a missing parameter is the user's choice.
  }, [chosen?.id]);
  const rewrite = () =>
    chosen &&
    save.mutate({ id: chosen.id, layout: { name: chosen.name, share: chosen.share, tag: chosen.tag, view: viewOf(search), reason: "" } });
  return (
    <>
      <Menu position="bottom-end" width={270}>
        <Menu.Target>
          <Button size="xs" variant="default" data-layout={chosen?.id}>
            {chosen ? `${visible(chosen.name)}${isChanged ? " *" : ""}` : "Layouts"}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {layouts.length === 0 && <Menu.Label>No saved layouts.</Menu.Label>}
          {layouts.map((layout) => (
            <Menu.Item
              key={layout.id}
              rightSection={<span className="faint tiny">{layout.tag || WHOSE[layout.share]}</span>}
              onClick={() => change({ ...searchOf(layout.view), layout: layout.id })}
            >
              {visible(layout.name)}
            </Menu.Item>
          ))}
          <Menu.Divider />
          {chosen?.may_change && isChanged && <Menu.Item onClick={rewrite}>Save changes to {visible(chosen.name)}</Menu.Item>}
          <Menu.Item onClick={() => setDoing("save")}>Save as new layout…</Menu.Item>
          {search.layout !== undefined && (
            <Menu.Item onClick={() => change({ ...searchOf({}), layout: undefined })}>Close layout</Menu.Item>
          )}
          {chosen?.may_change && (
            <Menu.Item className="bad" onClick={() => setDoing("delete")}>
              Delete {visible(chosen.name)}…
            </Menu.Item>
          )}
        </Menu.Dropdown>
      </Menu>
      {doing === "save" && <SaveLayout run={run} search={search} change={change} onClose={() => setDoing(null)} />}
      {doing === "delete" && chosen && (
        <DeleteLayout
          run={run.name}
          layout={chosen}
          onClose={() => {
            change({ layout: undefined });
            setDoing(null);
          }}
        />
      )}
    </>
  );
}
