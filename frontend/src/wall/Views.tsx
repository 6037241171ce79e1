/** Saved views. */

import { Button, Menu, Switch, TextInput } from "@mantine/core";
import { queryOptions, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, body, useChange } from "@/api/client";
import type { components } from "@/api/schema";
import { useMayOperate } from "@/api/session";
import { ReasonDialog } from "@/components/Dialog";
import { visible } from "@/format";
import type { ShareSearch } from "@/share/share";
import { replacing, type SavedSearch, savedOf, type View } from "@/wall/view";

type Schemas = components["schemas"];
export type SavedView = Schemas["ViewRow"];
type SetView = Schemas["SetViewRequest"];

const VIEWS = "views";

/** The views for a run; for several runs, all that the user sees. */
export function viewsQuery(run: string | undefined) {
  return queryOptions({
    queryKey: [VIEWS, run],
    queryFn: async (): Promise<SavedView[]> => (await body(api.GET("/api/v1/views", { params: { query: { run } } }))).results,
  });
}

/** Save a view, or replace an existing one. */
export function useSaveView() {
  return useChange(
    [VIEWS],
    ({ id, fields }: { id: number | null; fields: SetView }): Promise<SavedView> =>
      id === null
        ? body(api.POST("/api/v1/views", { body: fields }))
        : body(api.PUT("/api/v1/views/{view}", { params: { path: { view: String(id) } }, body: fields })),
  );
}

export function useDeleteView() {
  return useChange([VIEWS], ({ id, reason }: { id: number; reason: string }) =>
    body(api.DELETE("/api/v1/views/{view}", { params: { path: { view: String(id) }, query: { reason } } })),
  );
}

type Share = SavedView["share"];
const WHOSE: Record<Share, string> = { mine: "yours", run: "one run", tag: "tag", all: "everyone" };
type Search = View & ShareSearch;
type Props = {
  /** The run of the page; absent for a comparison. */
  run?: string;
  search: Search;
  apply: (more: Search) => void;
};

const isSame = (search: Search, saved: SavedSearch): boolean => {
  const sorted = (view: object) => JSON.stringify(Object.entries(view).sort(([a], [b]) => a.localeCompare(b)));
  return sorted(savedOf(search)) === sorted(savedOf(replacing({}, saved)));
};

function SaveView({ search, apply, onClose }: Props & { onClose: () => void }) {
  const save = useSaveView();
  const mayOperate = useMayOperate();
  const [name, setName] = useState("");
  const [isShared, setShared] = useState(false);
  const send = (reason: string) => {
    const scope = { share: isShared ? "all" : "mine", run: "", tag: "" } as const;
    const onSuccess = ({ id }: SavedView) => {
      apply({ view: id });
      onClose();
    };
    save.mutate({ id: null, fields: { name, ...scope, view: savedOf(search), reason } }, { onSuccess });
  };
  return (
    <ReasonDialog
      title="Save view"
      submit="Save"
      asking={save}
      refused="View not saved"
      isReady={name.trim() !== ""}
      onSubmit={send}
      onClose={onClose}
    >
      <p className="soft">Stores what the address holds: filter, axis, range, smoothing, panels, their axes, and compared runs.</p>
      <TextInput
        label="Name"
        required
        maxLength={60}
        data-autofocus
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      {mayOperate && (
        <Switch mt="sm" label="Share with everyone" checked={isShared} onChange={(event) => setShared(event.currentTarget.checked)} />
      )}
    </ReasonDialog>
  );
}

function DeleteView({ view, onClose, onDeleted }: { view: SavedView; onClose: () => void; onDeleted: () => void }) {
  const remove = useDeleteView();
  return (
    <ReasonDialog
      title={`Delete view ${visible(view.name)}?`}
      submit="Delete view"
      destroys
      asking={remove}
      refused="View not deleted"
      onSubmit={(reason) => remove.mutate({ id: view.id, reason }, { onSuccess: onDeleted })}
      onClose={onClose}
    >
      <p>
        {view.share === "mine" ? "The view is private." : "The view is shared; other users lose it too."} Links that contain all its
        settings keep working.
      </p>
    </ReasonDialog>
  );
}

/** Saved views: the user's own and shared ones. */
export function Views({ run, search, apply }: Props) {
  const { data: views = [] } = useQuery(viewsQuery(run));
  const save = useSaveView();
  const [doing, setDoing] = useState<"save" | "delete" | null>(null);
  const chosen = views.find(({ id }) => id === search.view);
  const saved = chosen?.view as SavedSearch | undefined;
  const isChanged = saved !== undefined && !isSame(search, saved);
  const isBare = Object.keys(savedOf(search)).every((key) => key === "runs");
  const open = ({ id, view }: SavedView) => apply({ ...replacing(search, view as SavedSearch), view: id });
  useEffect(() => {
    // An address with only the number of a view opens the entire view.
    if (chosen && isBare && isChanged) open(chosen);
    // Only on first load: afterwards a missing parameter is the user's choice.
  }, [chosen?.id]);
  const rewrite = ({ id, name, share, run: of, tag }: SavedView) =>
    save.mutate({ id, fields: { name, share, run: of, tag, view: savedOf(search), reason: "" } });
  return (
    <>
      <Menu position="bottom-end" width={270}>
        <Menu.Target>
          <Button size="xs" variant="default" data-view={chosen?.id}>
            {chosen ? `${visible(chosen.name)}${isChanged ? " *" : ""}` : "Views"}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {views.length === 0 && <Menu.Label>No saved views.</Menu.Label>}
          {views.map((view) => (
            <Menu.Item
              key={view.id}
              rightSection={<span className="faint tiny">{view.tag || WHOSE[view.share]}</span>}
              onClick={() => open(view)}
            >
              {visible(view.name)}
            </Menu.Item>
          ))}
          <Menu.Divider />
          {chosen?.may_change && isChanged && <Menu.Item onClick={() => rewrite(chosen)}>Save changes to {visible(chosen.name)}</Menu.Item>}
          <Menu.Item onClick={() => setDoing("save")}>Save as new view…</Menu.Item>
          {search.view !== undefined && (
            <Menu.Item onClick={() => apply(replacing(search, run ? {} : { runs: search.runs }))}>Close view</Menu.Item>
          )}
          {chosen?.may_change && (
            <Menu.Item className="bad" onClick={() => setDoing("delete")}>
              Delete {visible(chosen.name)}…
            </Menu.Item>
          )}
        </Menu.Dropdown>
      </Menu>
      {doing === "save" && <SaveView search={search} apply={apply} onClose={() => setDoing(null)} />}
      {doing === "delete" && chosen && (
        <DeleteView
          view={chosen}
          onClose={() => setDoing(null)}
          onDeleted={() => {
            apply({ view: undefined });
            setDoing(null);
          }}
        />
      )}
    </>
  );
}
