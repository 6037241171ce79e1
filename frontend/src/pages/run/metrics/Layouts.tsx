import { Button, Menu, Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { layoutsQuery, type MetricLayout, useForgetLayout, useKeepLayout } from "@/api/layouts";
import { useMayOperate } from "@/api/session";
import type { RunDetail } from "@/api/types";
import { ReasonDialog } from "@/components/ReasonDialog";
import { visible } from "@/format";
import { lookOf, looksAs, searchOf } from "./looks";
import type { MetricsSearch } from "./search";

type Share = MetricLayout["share"];
const WHOSE: Record<Share, string> = { mine: "yours", run: "this run", tag: "tag" };

type Props = { run: RunDetail; search: MetricsSearch; change: (more: Partial<MetricsSearch>) => void };

function Keep({ run, search, change, onClose }: Props & { onClose: () => void }) {
  const keep = useKeepLayout(run.name);
  const mayOperate = useMayOperate();
  const [name, setName] = useState("");
  const [share, setShare] = useState("mine");
  const shares = [
    { value: "mine", label: "Only me, in every run" },
    ...(mayOperate
      ? [
          { value: "run", label: "Everybody who reads this run" },
          ...run.tags.map((tag) => ({ value: `tag:${tag}`, label: `Everybody, in runs tagged ${tag}` })),
        ]
      : []),
  ];
  const send = (reason: string) => {
    const tag = share.startsWith("tag:") ? share.slice(4) : "";
    const layout = { name, share: (tag ? "tag" : share) as Share, tag, look: lookOf(search), reason };
    keep.mutate(
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
      title="Keep this layout"
      submit="Keep it"
      asking={keep}
      refused="It was not kept"
      isReady={name.trim() !== ""}
      onSubmit={send}
      onClose={onClose}
    >
      <p className="soft">Words, branch, axis, smoothing, pins, log axes and panels; not the place that is looked at.</p>
      <TextInput
        label="Name"
        required
        maxLength={60}
        data-autofocus
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <Select mt="sm" label="For" allowDeselect={false} data={shares} value={share} onChange={(value) => value && setShare(value)} />
    </ReasonDialog>
  );
}

function Forget({ run, layout, onClose }: { run: string; layout: MetricLayout; onClose: () => void }) {
  const forget = useForgetLayout(run);
  return (
    <ReasonDialog
      title={`Forget the layout ${visible(layout.name)}?`}
      submit="Forget it"
      destroys
      asking={forget}
      refused="It is still kept"
      onSubmit={(reason) => forget.mutate({ id: layout.id, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p>
        {layout.share === "mine" ? "Nobody else sees it." : "It is shared: nobody can choose it any more."} Addresses that hold it in full
        go on working.
      </p>
    </ReasonDialog>
  );
}

/** Ways to look at the metrics that were kept, on the server: one's own and shared ones. */
export function Layouts({ run, search, change }: Props) {
  const { data: layouts = [] } = useQuery(layoutsQuery(run.name));
  const keep = useKeepLayout(run.name);
  const [doing, setDoing] = useState<"keep" | "forget" | null>(null);
  const chosen = layouts.find(({ id }) => id === search.layout);
  const isChanged = chosen !== undefined && !looksAs(search, chosen.look);
  const isBare = looksAs(search, {});
  useEffect(() => {
    // An address that names a layout and says nothing else means all of it.
    if (chosen && isBare && isChanged) change(searchOf(chosen.look));
    // Only when it is first known: later its absence is somebody's choice.
  }, [chosen?.id]);
  const rewrite = () =>
    chosen &&
    keep.mutate({ id: chosen.id, layout: { name: chosen.name, share: chosen.share, tag: chosen.tag, look: lookOf(search), reason: "" } });
  return (
    <>
      <Menu position="bottom-end" width={270}>
        <Menu.Target>
          <Button size="xs" variant="default" data-layout={chosen?.id}>
            {chosen ? `${visible(chosen.name)}${isChanged ? " *" : ""}` : "Layouts"}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {layouts.length === 0 && <Menu.Label>None is kept yet.</Menu.Label>}
          {layouts.map((layout) => (
            <Menu.Item
              key={layout.id}
              rightSection={<span className="faint tiny">{layout.tag || WHOSE[layout.share]}</span>}
              onClick={() => change({ ...searchOf(layout.look), layout: layout.id })}
            >
              {visible(layout.name)}
            </Menu.Item>
          ))}
          <Menu.Divider />
          {chosen?.may_change && isChanged && <Menu.Item onClick={rewrite}>Keep the changes in {visible(chosen.name)}</Menu.Item>}
          <Menu.Item onClick={() => setDoing("keep")}>Keep as a new layout…</Menu.Item>
          {search.layout !== undefined && (
            <Menu.Item onClick={() => change({ ...searchOf({}), layout: undefined })}>Leave the layout</Menu.Item>
          )}
          {chosen?.may_change && (
            <Menu.Item className="bad" onClick={() => setDoing("forget")}>
              Forget {visible(chosen.name)}…
            </Menu.Item>
          )}
        </Menu.Dropdown>
      </Menu>
      {doing === "keep" && <Keep run={run} search={search} change={change} onClose={() => setDoing(null)} />}
      {doing === "forget" && chosen && (
        <Forget
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
