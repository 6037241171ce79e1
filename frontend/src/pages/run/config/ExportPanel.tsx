import { Button, NumberInput } from "@mantine/core";
import { useState } from "react";
import type { RunDetail } from "@/api/types";
import { Panel } from "@/components/Panel";

const GROUPS = 20;
const GROUPS_AT_MOST = 500;

/** Export the run as one HTML file that opens in any browser without a server. */
export function ExportPanel({ run }: { run: RunDetail }) {
  const [groups, setGroups] = useState<number | string>(GROUPS);
  const wanted = typeof groups === "number" ? groups : GROUPS;
  return (
    <Panel title="Export" note="one HTML file, works offline" className="span-12">
      <p className="soft copy-about">
        Contains run details, ledger, metrics, events, this configuration, and the newest groups with their messages and tokens.
        Alternatively:{" "}
        <code className="mono tiny">
          rolldeck bundle {run.name} --groups {wanted}
        </code>
      </p>
      <div className="copy-actions">
        <NumberInput
          label="Groups to include"
          size="xs"
          min={0}
          max={GROUPS_AT_MOST}
          clampBehavior="strict"
          value={groups}
          onChange={setGroups}
        />
        <Button
          size="xs"
          variant="default"
          component="a"
          href={`/api/v1/runs/${encodeURIComponent(run.name)}/bundle?groups=${wanted}`}
          download
        >
          Download
        </Button>
      </div>
    </Panel>
  );
}
