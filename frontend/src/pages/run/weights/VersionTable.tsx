import { Link } from "@tanstack/react-router";
import type { ComponentProps } from "react";
import type { PolicyVersionRow, RunDetail, WeightSyncRow, WeightsCommands } from "@/api/types";
import { Age } from "@/components/Age";
import { Chip } from "@/components/Chip";
import { EmptyState } from "@/components/EmptyState";
import { Panel } from "@/components/Panel";
import { ShowMore } from "@/components/ShowMore";
import { Table } from "@/components/Table";
import { bytes, duration, versionName, visible } from "@/format";
import { isHeldBack } from "@/pages/run/weights/commands";
import { waterfallOf } from "@/pages/run/weights/waterfall";
import css from "@/pages/run/weights/weights.module.css";
import { trainerCommand } from "@/runs/words";

type RowProps = {
  run: RunDetail;
  orders: WeightsCommands | undefined;
  version: PolicyVersionRow;
  deliveries: WeightSyncRow[];
  isOpen: boolean;
};

function Row({ run, orders, version, deliveries, isOpen }: RowProps) {
  const { bars, slowest, missing } = waterfallOf(version, deliveries);
  const isCurrent = version.epoch === run.epoch && version.step === run.policy_step;
  const isKept = orders?.pinned_step === version.step && version.epoch === run.epoch;
  const isBack = isHeldBack(version, orders, run.epoch);
  // Reports arrive once a second, so shorter times are not compared.
  const isQuick = slowest === null && bars.length > missing;
  return (
    <tr
      data-row
      className="opens"
      data-version={version.step}
      data-retention={isKept || undefined}
      data-held-back={isBack || undefined}
      aria-current={isOpen ? "true" : undefined}
    >
      <td className="num">
        <Link to="/runs/$name/weights" params={{ name: run.name }} search={{ version: version.id }} replace className="strong" data-open>
          {versionName(version.epoch, version.step)}
        </Link>
      </td>
      <td className="nowrap">
        {isCurrent && (
          <Chip tone={isBack ? "quiet" : "good"} sign={isBack ? "◌" : "●"}>
            {isBack ? "newest" : "current"}
          </Chip>
        )}{" "}
        {isKept && (
          <Chip tone="held" sign="⊢">
            pinned
          </Chip>
        )}
        {isBack && <span className="small"> not distributed</span>}
      </td>
      <td className="num">
        <Age at={version.published_at} suffix=" ago" />
      </td>
      <td className="num">{bytes(version.size_bytes)}</td>
      <td className="nowrap">{version.trainer ? visible(version.trainer) : "–"}</td>
      <td className="num">{bars.length === 0 ? "–" : `${bars.length - missing} of ${bars.length}`}</td>
      <td className="num nowrap">{slowest ? duration(slowest.active) : isQuick ? "< 1 s" : "–"}</td>
    </tr>
  );
}

type Props = {
  run: RunDetail;
  orders: WeightsCommands | undefined;
  versions: PolicyVersionRow[];
  deliveries: WeightSyncRow[];
  open: number | undefined;
  pages: ComponentProps<typeof ShowMore>["pages"];
};

/** Published versions, newest first, with their distribution to workers. */
export function VersionTable({ run, orders, versions, deliveries, open, pages }: Props) {
  return (
    <Panel title="Versions" note="newest first" className="span-6">
      {versions.length === 0 ? (
        <EmptyState
          title="No weights published yet"
          command={trainerCommand(run, location.origin)}
          needs={{ scope: "trainer", run: run.name }}
        >
          A trainer publishes its initial weights as version 0; until then no data is generated.
        </EmptyState>
      ) : (
        <Table
          label="Versions, newest first"
          className={css.versions}
          columns={[
            { label: "Version", className: "num" },
            { label: <span className="unseen">Current</span> },
            { label: "Published", className: "num" },
            { label: "Size", className: "num" },
            { label: "Trainer" },
            { label: "Workers", className: "num" },
            { label: "Slowest", className: "num" },
          ]}
        >
          {versions.map((version) => (
            <Row key={version.id} run={run} orders={orders} version={version} deliveries={deliveries} isOpen={version.id === open} />
          ))}
        </Table>
      )}
      <ShowMore pages={pages} words="Show older versions" />
    </Panel>
  );
}
