import { Badge, Group, Paper, SegmentedControl, Space, Text, TextInput, UnstyledButton } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type Column, DataTable } from "@/components/DataTable";
import { Age } from "@/components/inline";
import { EmptyState, PageTitle } from "@/components/panels";
import { number, percent, visible } from "@/format";
import { ENVIRONMENT_KINDS, type EnvironmentKind, type KnownEnvironment, knownEnvironmentsQuery } from "@/pages/environments/api";
import { EnvironmentDrawer } from "@/pages/environments/EnvironmentDrawer";
import { KINDS, windowText } from "@/pages/environments/words";
import css from "./environments.module.css";

const ENVIRONMENTS_PER_PAGE = 50;

const columnsOf = (onOpen: (row: KnownEnvironment) => void): Column<KnownEnvironment>[] => [
  {
    label: "Environment",
    className: css.name,
    value: (row) => row.name,
    cell: (row) => (
      <>
        <UnstyledButton data-open onClick={() => onOpen(row)}>
          {visible(row.name)}
        </UnstyledButton>
        {row.denied && <Badge title={visible(row.denied.reason)}>denied</Badge>}
        {row.presets.map((preset) => (
          <Badge key={preset} title="Preset for this environment">
            {preset}
          </Badge>
        ))}
        <div className="mantine-hidden-from-sm faint tiny">{KINDS[row.kind].label}</div>
      </>
    ),
  },
  {
    label: "Kind",
    className: "mantine-visible-from-sm",
    value: (row) => KINDS[row.kind].label,
    cell: (row) => <Badge title={KINDS[row.kind].meaning}>{KINDS[row.kind].label}</Badge>,
  },
  {
    label: "Runs",
    isNumber: true,
    value: (row) => row.runs,
    cell: (row) => (
      <>
        {row.runs === 0 ? <span className="faint">never</span> : number(row.runs)}
        {row.active_runs > 0 && <span className="faint small mantine-visible-from-sm"> · {number(row.active_runs)} active</span>}
      </>
    ),
  },
  {
    label: "Last seen",
    className: "nowrap soft mantine-visible-from-sm",
    value: (row) => row.last_seen_at,
    cell: (row) => <Age at={row.last_seen_at} suffix=" ago" />,
  },
  {
    label: "Per hour",
    className: "mantine-visible-from-sm",
    isNumber: true,
    value: (row) => row.per_hour,
    cell: (row) => (
      <>
        {number(row.per_hour)}
        {row.per_hour !== null && <span className="faint small"> {KINDS[row.kind].unit}</span>}
      </>
    ),
  },
  { label: "Mean reward", isNumber: true, value: (row) => row.reward_mean },
  {
    label: "Zero variance",
    className: "mantine-visible-from-sm",
    isNumber: true,
    value: (row) => row.zero_variance_share,
    title: "Share of groups whose scores are all equal, and which therefore give no learning signal.",
    cell: (row) => percent(row.zero_variance_share),
  },
];

export function EnvironmentsPage() {
  const { q = "", kind, of, name } = useSearch({ from: "/shell/environments" });
  const navigate = useNavigate({ from: "/environments" });
  const list = useInfiniteQuery(knownEnvironmentsQuery(q, kind, ENVIRONMENTS_PER_PAGE));
  const look = (changes: { q?: string; kind?: EnvironmentKind }) =>
    void navigate({ search: (now) => ({ ...now, ...changes }), replace: true });
  const [first] = list.data?.pages ?? [];
  return (
    <>
      <PageTitle title="Environments">
        <span className="soft small">Registered environments and those that runs have used.</span>
      </PageTitle>
      <Paper component="section" aria-label="Environments by name">
        <Group p="sm" gap="sm">
          <TextInput
            size="xs"
            aria-label="Part of the name"
            placeholder="Part of the name"
            value={q}
            data-filter
            onChange={(event) => look({ q: event.currentTarget.value || undefined })}
          />
          <SegmentedControl
            size="xs"
            aria-label="Kind"
            value={kind ?? "all"}
            data={["all", ...ENVIRONMENT_KINDS]}
            onChange={(value) => look({ kind: ENVIRONMENT_KINDS.find((each) => each === value) })}
          />
          <Space flex={1} />
          {first && (
            <Text size="xs" maw="34rem" className="faint">
              {windowText(first)}
            </Text>
          )}
        </Group>
        <DataTable
          label="Environments"
          rows={list.data?.pages.flatMap(({ results }) => results)}
          error={list.error}
          columns={columnsOf((row) => void navigate({ search: (now) => ({ ...now, of: row.kind, name: row.name }) }))}
          keyOf={(row) => `${row.kind} ${row.name}`}
          attributes={(row) => ({ "data-opens": true, "data-row": true, "data-environment": row.name })}
          pages={list}
          empty={
            <EmptyState
              guide="start/environment"
              title="No matching environments"
              command="export ROLLDECK_ENVIRONMENTS=module:my_lab.mazes:Maze"
              action={<Link to="/environments">All environments</Link>}
            >
              Custom environments become available once an administrator registers them; external ones appear when they register themselves.
            </EmptyState>
          }
        />
      </Paper>
      {of && name && (
        <EnvironmentDrawer kind={of} name={name} onClose={() => void navigate({ search: ({ of: _of, name: _name, ...rest }) => rest })} />
      )}
    </>
  );
}
