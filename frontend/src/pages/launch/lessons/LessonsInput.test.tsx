import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { beforeEach, expect, it } from "vitest";
import { launchServer } from "@/testing/launch";
import { fill, load } from "@/testing/page";
import type { AnswerTo } from "@/testing/server";

const [FOUR, EIGHT, TWELVE, SORT] = ["one-good", "two-goods", "three-goods", "larger-prices"];
const nameOf = (position: number) => screen.getByLabelText(`Name of lesson ${position}`);
const named = (label: string) => screen.getByLabelText(label);
const press = (label: string) => fireEvent.click(named(label));

type Language = { lesson_order: string[]; lessons: Record<string, { spec: string; sampling: object; requires: object[] }> };
const language = (): Language => JSON.parse(screen.getByLabelText<HTMLTextAreaElement>("Resolved configuration").value).language;

beforeEach(async () => {
  const addition = { name: "task:addition", registered: true, denied: null };
  launchServer().on("GET", "/api/v1/environments", { results: [addition], next: null } as unknown as AnswerTo<
    "GET",
    "/api/v1/environments"
  >);
  await load("/runs/new?preset=curriculum&view=config");
  expect(await screen.findByLabelText("Name of lesson 4")).toHaveValue(SORT);
});

it("shows the essential fields of each lesson in its row", async () => {
  expect(screen.getByRole("table", { name: "Lessons" }).querySelectorAll("tbody tr")).toHaveLength(4);
  expect(named(`Environment of ${EIGHT}`)).toHaveValue("task:shopping");
  expect(named(`Arguments of ${EIGHT}`)).toHaveValue('{"goods":2,"highest":9}');
  expect(named(`Longest turn of ${EIGHT}`)).toHaveValue("24");
  expect(named(`Learnt at of ${EIGHT}`)).toHaveValue("0.9");
  expect(named(`Requires of ${EIGHT}: ${FOUR} ≥ 0.5`)).toBeVisible();
  await waitFor(() => expect(document.querySelector("#environments-of-tokens option[value='task:addition']")).not.toBeNull());
});

it("adds, renames, duplicates, moves and deletes lessons", async () => {
  fill(nameOf(1), "easy");
  fireEvent.blur(nameOf(1));
  expect(await screen.findByLabelText(`Requires of ${EIGHT}: easy ≥ 0.5`)).toBeVisible();

  press(`Move ${SORT} up`);
  expect(nameOf(3)).toHaveValue(SORT);
  expect(named(`Move ${SORT} up`)).toHaveFocus();
  press(`Move ${TWELVE} up`);
  press(`Move ${TWELVE} down`);
  await waitFor(() => expect(named(`Move ${TWELVE} up`)).toHaveFocus());
  press(`Duplicate ${SORT}`);
  expect(nameOf(4)).toHaveValue(`${SORT}-2`);
  press("Delete easy");
  expect(nameOf(1)).toHaveValue(EIGHT);
  fireEvent.click(screen.getByText("Add a lesson"));
  await waitFor(() => expect(nameOf(5)).toHaveFocus());
  fill(named("Environment of lesson"), "task:addition");

  const settings = language();
  expect(settings.lesson_order).toEqual([EIGHT, SORT, `${SORT}-2`, TWELVE, "lesson"]);
  expect(settings.lessons.lesson?.spec).toBe("task:addition");
  expect(settings.lessons[`${SORT}-2`]).toEqual(settings.lessons[SORT as string]);
});

it("edits other fields and requirements of a lesson", async () => {
  press(`More fields of ${SORT}`);
  const editor = within(await screen.findByRole("group", { name: `Lesson ${SORT}` }));
  fill(editor.getByLabelText("Temperature"), "0.7");
  press("Add a required lesson");
  fireEvent.click(await editor.findByRole("combobox", { name: "Required lesson 1" }));
  fireEvent.click(await screen.findByRole("option", { name: TWELVE, hidden: true }));
  fill(editor.getByLabelText("Minimum success of required lesson 1"), "0.25");

  const lesson = language().lessons[SORT as string];
  expect(lesson?.sampling).toMatchObject({ temperature: 0.7 });
  expect(lesson?.requires).toEqual([{ lesson: TWELVE, min_success: 0.25 }]);
});

it("shows the same lessons as JSON and as a table", async () => {
  const view = within(screen.getByRole("radiogroup", { name: "View of the lessons" }));
  fireEvent.click(view.getByText("JSON"));
  const text = await screen.findByLabelText("Lessons as JSON");
  fill(text, '{"add": {"spec": "task:addition", "nope": 1}}');
  expect((await screen.findAllByText("add: there is no field nope."))[0]).toBeVisible();
  fill(text, '{"add": {"spec": "task:addition"}, "sort": {"spec": "task:sort"}}');

  fireEvent.click(view.getByText("Table"));
  await waitFor(() => expect(nameOf(1)).toHaveValue("add"));
  expect(named("Environment of sort")).toHaveValue("task:sort");
});
