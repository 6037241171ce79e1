import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { expect, it } from "vitest";
import type { Mark } from "@/marks/marks";
import { fill, load, serverFor } from "@/testing/page";
import { addRun, runOf } from "@/testing/runs";
import { detailOf, groupOf, sampleOf, samplesOf } from "@/testing/samples";
import { Refusal, type Server } from "@/testing/server";

const MARKS = "/api/v1/runs/{run}/marks";
const markOf = (tags: string[], note = ""): Mark => ({ tags, note, changed_by: "bob", changed_at: new Date().toISOString() });

/** A run with two groups, whose marks a request changes. */
function marked(role: "admin" | "viewer", ...marks: (Mark | null)[]): Server {
  const server = serverFor(role);
  addRun(server, runOf("alpha", { kind: "outside" }));
  const of = new Map(marks.map((mark, place) => [place + 1, mark]));
  const counts = () => [...of.values()].flatMap((mark) => mark?.tags ?? []);
  return server
    .on("GET", "/api/v1/trajectories/filter", { results: [], next: null })
    .on("GET", "/api/v1/trajectories/filter/values", () => ({
      results: [...new Set(counts())].map((value) => ({ value, count: counts().filter((tag) => tag === value).length })),
      next: null,
    }))
    .on("GET", "/api/v1/trajectories", () => samplesOf([...of].map(([id, mark]) => sampleOf(String(id), { mark }))))
    .on("GET", "/api/v1/runs/{run}/groups/{group}", () => detailOf(groupOf(1, 3, { has_bytes: false, mark: of.get(1) ?? null })))
    .on("POST", MARKS, ({ body }) => {
      const { groups, add_tags, remove_tags, note } = body as {
        groups: number[];
        add_tags: string[];
        remove_tags: string[];
        note?: string;
      };
      const results = groups.map((id) => {
        const before = of.get(id);
        const tags = [...new Set([...(before?.tags ?? []), ...add_tags])].filter((tag) => !remove_tags.includes(tag)).sort();
        const mark = markOf(tags, note ?? before?.note);
        of.set(id, mark);
        return { id, mark };
      });
      return { results };
    });
}

const row = async (id: number) => (await screen.findByRole("link", { name: `Prompt ${id}` })).closest("tr") as HTMLElement;
/** The list of completions has the same name. */
const tagsIn = (editor: HTMLElement) => within(editor).getByLabelText("Tags", { selector: "input" });
/** Open group 1 in the viewer. */
async function edit() {
  const user = await load("/runs/alpha/groups/1");
  return { user, editor: await screen.findByRole("complementary", { name: "Details" }) };
}

const posted = (server: Server) => server.asked.filter(({ verb }) => verb === "POST").map(({ body }) => body);

it("shows tags and notes in rows, as text for users who may not change them", async () => {
  marked("viewer", markOf(["reward hack", "\u202eodd"], "look"), null);
  await load("/runs/alpha/trajectories");
  const first = await row(1);
  await waitFor(() => expect(first).toHaveTextContent("reward hack"));
  expect(first).toHaveTextContent("⟨U+202E⟩odd");
  expect(within(first).getByLabelText("Noted")).toBeVisible();
  expect(within(first).queryByRole("button")).toBeNull();
});

it("adds and removes tags, and saves a note, in the viewer", async () => {
  const server = marked("admin", markOf(["good"]), null);
  const { user, editor } = await edit();
  await user.type(tagsIn(editor), "reward hack{Enter}");
  await waitFor(() => expect(editor).toHaveTextContent("reward hack"));
  await user.type(tagsIn(editor), "{Backspace}");
  await waitFor(() => expect(editor).not.toHaveTextContent("reward hack"));
  fill(within(editor).getByLabelText("Note"), "it guesses");
  fireEvent.click(within(editor).getByText("Save note"));
  await waitFor(() => expect(within(editor).queryByText("Save note")).toBeNull());
  const same = { groups: [1], reason: "" };
  expect(posted(server)).toEqual([
    { ...same, add_tags: ["reward hack"], remove_tags: [] },
    { ...same, add_tags: [], remove_tags: ["reward hack"] },
    { ...same, add_tags: [], remove_tags: [], note: "it guesses" },
  ]);
});

it("tags all selected groups, and shows the tags that all have", async () => {
  const server = marked("admin", markOf(["good", "odd"]), markOf(["good"]));
  const user = await load("/runs/alpha/trajectories");
  await user.click(await screen.findByLabelText("Select all shown groups"));
  const bar = screen.getByRole("group", { name: "Selected groups" });
  await waitFor(() => expect(bar).toHaveTextContent("good"));
  expect(bar).not.toHaveTextContent("odd");
  await user.type(within(bar).getByLabelText("Tags of all selected groups", { selector: "input" }), "new{Enter}");
  await waitFor(async () => expect(await row(2)).toHaveTextContent("new"));
  expect(posted(server)[0]).toMatchObject({ groups: [1, 2], add_tags: ["new"], remove_tags: [] });
});

it("names the error of a refused tag", async () => {
  const message = "21 tags on one group, at most 20";
  marked("admin", null).on(
    "POST",
    MARKS,
    new Refusal({ status: 400, code: "invalid", detail: message, errors: [{ field: "add_tags", message }] }),
  );
  const { user, editor } = await edit();
  await user.type(tagsIn(editor), "x{Enter}");
  await screen.findByText(new RegExp(message));
});
