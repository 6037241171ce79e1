import { Button, Group, SegmentedControl, Text } from "@mantine/core";
import { useThrottledValue } from "@mantine/hooks";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { type ReactNode, useCallback, useMemo, useRef, useState } from "react";
import { ApiProblem } from "@/api/client";
import { useMayOperate } from "@/api/session";
import { COLUMNS_BUTTON, ColumnsMenu } from "@/components/columns/columnsButton";
import { FilterBox } from "@/components/filter/FilterBox";
import { MenuButton } from "@/components/onDemand";
import { EmptyState, ErrorState, Skeletons } from "@/components/panels";
import { ShowMore } from "@/components/Table";
import { counted, number } from "@/format";
import { SelectionBar } from "@/marks/MarkBar";
import { SampleTable } from "@/samples/SampleTable";
import {
  factsQuery,
  MOST_NEW,
  newestQuery,
  newSamples,
  qualifiersQuery,
  type Sample,
  type SamplePage,
  samplesQuery,
  VALUES_OF,
  valuesQuery,
} from "@/samples/samples";
import { factsOf, MOST_COLUMNS, type SampleKind, type SampleSearch, type Sort } from "@/samples/search";

const LOOK_MS = 15_000;
const ARRIVALS_MS = 3_000;
const LABELS: Record<SampleKind, string> = { group: "Groups", episode: "Episodes", fragment: "Fragments" };
const PLACEHOLDERS: Record<SampleKind, string> = {
  group: 'env:math score:<0.2 is:truncated "free text"',
  episode: "env:maze score:<0 version:>=12",
  fragment: "slot~w0-3 state:dropped version:>=12",
};

type Props = {
  search: SampleSearch;
  onSearch: (next: SampleSearch, replace: boolean) => void;
  /** Kinds to choose from; the first is the default. */
  kinds: readonly SampleKind[];
  /** The only run; without it, the samples of all runs. */
  run?: string;
  /** Number of samples that the run has received, which tells when there may be new ones. */
  arrived?: number;
  /** Beside the filter, and below it. */
  aside?: ReactNode;
  above?: ReactNode;
  /** Shown without any sample and without a filter. */
  empty: ReactNode;
};

/** The samples of one or more runs with a filter, in an order that each column can set. */
export function SampleList({ search, onSearch, kinds, run, arrived, aside, above, empty }: Props) {
  const { q = "", sort } = search;
  const kind = kinds.find((each) => each === search.kind) ?? kinds[0] ?? "group";
  const listed = { kind, run, q: q || undefined, sort, columns: kind === "group" ? search.columns : undefined };
  const pages = useInfiniteQuery(samplesQuery(listed));
  const problem = pages.error instanceof ApiProblem && pages.error.status === 400 ? pages.error : null;
  // While the filter is invalid, show the rows of the last valid filter.
  const lastGood = useRef({ kind, data: pages.data });
  if (pages.isSuccess) lastGood.current = { kind, data: pages.data };
  const isOld = (problem || pages.isPending) && lastGood.current.kind === kind;
  const data = isOld ? lastGood.current.data : pages.data;
  const samples = useMemo(() => data?.pages.flatMap(({ results }) => results) ?? [], [data]);
  const [first, last] = [data?.pages[0], data?.pages.at(-1)];
  const { data: qualifiers = [] } = useQuery(qualifiersQuery(kind));
  const columns = useMemo(() => factsOf({ columns: search.columns }), [search.columns]);
  const [isAsked, setAsked] = useState(false);
  const facts = useQuery(factsQuery(run, isAsked && kind === "group")).data;
  const language = useMemo(() => {
    // Keys of metadata and overrides are qualifiers too.
    const keyed = (facts ?? []).flatMap(({ value, count }) => {
      const form = qualifiers.find(({ name }) => name === value.split(".")[0]);
      return form ? [{ ...form, name: value, meaning: counted(count, "group"), example: `${value}:` }] : [];
    });
    const valuesOf = [...VALUES_OF, ...keyed.map(({ name }) => name)];
    return { qualifiers: [...qualifiers, ...keyed], valuesOf, values: valuesQuery({ kind, run }) };
  }, [qualifiers, facts, kind, run]);
  const change = (changes: Partial<SampleSearch>, replace = false) => onSearch({ ...search, ...changes }, replace);
  const { fetchNextPage, hasNextPage, isFetchingNextPage } = pages;
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const list = useMemo(() => ({ q: search.q, sort, columns: search.columns }), [search.q, sort, search.columns]);
  const coverage = first && coverageOf(first, last?.is_partial === true, kind, search);
  const mayOperate = useMayOperate();
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const chosen =
    kind === "group" ? samples.flatMap(({ id, mark, state }) => (picked.has(id) ? [{ id: Number(id), mark, state }] : [])) : [];
  const choose = useCallback(
    (ids: string[], isOn: boolean) =>
      setPicked((before) => new Set(isOn ? [...before, ...ids] : [...before].filter((id) => !ids.includes(id)))),
    [],
  );
  return (
    <>
      <Group gap="xs" px="sm" pt="xs" mb="xs" onFocus={() => setAsked(true)}>
        {kinds.length > 1 && (
          <SegmentedControl
            size="xs"
            aria-label="Kind"
            value={kind}
            data={kinds.map((each) => ({ value: each, label: LABELS[each] }))}
            onChange={(next) => onSearch({ kind: next === kinds[0] ? undefined : (next as SampleKind), spread: search.spread }, false)}
          />
        )}
        <FilterBox
          language={language}
          label="Filter samples"
          placeholder={PLACEHOLDERS[kind]}
          value={q}
          onChange={(text) => change({ q: text || undefined }, true)}
          problem={problem}
        />
        {kind === "group" && (
          <MenuButton
            menu={ColumnsMenu}
            target={COLUMNS_BUTTON}
            named={facts?.map(({ value }) => value)}
            chosen={columns}
            atMost={MOST_COLUMNS}
            sources="Metadata or overrides"
            onOpen={setAsked}
            onChoose={(ids) => change({ columns: ids.join(",") || undefined })}
          />
        )}
        {aside}
      </Group>
      {above}
      {coverage && (
        <Text size="xs" c="dimmed" px="sm" mb="xs" role="status">
          {coverage}
        </Text>
      )}
      {!sort && pages.isSuccess && <NewSamples listed={listed} arrived={arrived} loaded={samples} onShow={() => void pages.refetch()} />}
      {pages.isPending && !data && <Skeletons heights={[320]} />}
      {pages.isError && !problem && <ErrorState title="Samples unavailable" error={pages.error} onRetry={() => void pages.refetch()} />}
      {run !== undefined && chosen.length > 0 && <SelectionBar run={run} groups={chosen} onClear={() => setPicked(new Set())} />}
      {samples.length > 0 && (
        <SampleTable
          samples={samples}
          kind={kind}
          hasRuns={run === undefined}
          columns={kind === "group" ? columns : undefined}
          list={list}
          onSort={(next) => change({ sort: next === "-arrived" ? undefined : (next as Sort) })}
          chosen={picked}
          onChoose={mayOperate && run !== undefined && kind === "group" ? choose : undefined}
          onEnd={more}
        />
      )}
      <ShowMore pages={pages} words={last?.is_partial ? "Search older" : undefined} />
      {pages.isSuccess &&
        samples.length === 0 &&
        !pages.hasNextPage &&
        (q ? (
          <EmptyState
            title={`No matching ${LABELS[kind].toLowerCase()}`}
            action={
              <Button variant="default" size="sm" onClick={() => change({ q: undefined })}>
                Clear filter
              </Button>
            }
          >
            Remove a term of the filter, or change it.
          </EmptyState>
        ) : (
          empty
        ))}
    </>
  );
}

/** What the pages of a list cover, if that is not everything. */
function coverageOf(first: SamplePage, isPartial: boolean, kind: SampleKind, { q, sort }: SampleSearch): string {
  const { runs, runs_left_out, unindexed, partly_searched } = first;
  const kinds = LABELS[kind].toLowerCase();
  const facts = [
    runs_left_out > 0 &&
      `Searched the newest ${counted(runs, "run")}; ${counted(runs_left_out, "older one matches", "older ones match")} too.`,
    isPartial && sort && `Sorted among the newest ${kinds}; older ones are not sorted in.`,
    isPartial && !sort && `Searched a part of the ${kinds}; older ones may match too.`,
    q && unindexed > 0 && `${unindexed >= 10_000 ? "10,000+ groups are" : counted(unindexed, "group is", "groups are")} not indexed yet.`,
    partly_searched > 0 &&
      `${counted(partly_searched, "group")} with over 64,000 characters of text searched in part: the beginning and the end of each message.`,
  ];
  return facts.filter(Boolean).join(" ");
}

type NewProps = { listed: Parameters<typeof newestQuery>[0]; arrived: number | undefined; loaded: Sample[]; onShow: () => void };

/** The number of samples that arrived since the list was read; a click inserts them. */
function NewSamples({ listed, arrived, loaded, onShow }: NewProps) {
  const received = useThrottledValue(arrived, ARRIVALS_MS);
  const { data = [] } = useQuery({ ...newestQuery(listed, received), refetchInterval: arrived === undefined ? LOOK_MS : false });
  const fresh = data.length === 0 ? 0 : newSamples(data, loaded);
  if (fresh <= 0) return null;
  return (
    <Button size="compact-xs" variant="light" onClick={onShow} mx="sm" mb="xs">
      {fresh >= MOST_NEW ? `${MOST_NEW}+` : number(fresh)} new
    </Button>
  );
}
