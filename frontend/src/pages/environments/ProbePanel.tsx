import { Button, NumberInput, Textarea } from "@mantine/core";
import { useState } from "react";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import { ErrorState } from "@/components/ErrorState";
import { Spark } from "@/components/Spark";
import { visible } from "@/format";
import { type KnownEnvironmentDetail, useTryEnvironment } from "@/pages/environments/api";
import { kwargsOf, probeText } from "@/pages/environments/probe";
import css from "./environments.module.css";

const STEPS = 1000;

function startOf({ config }: KnownEnvironmentDetail): string {
  const { kwargs } = (config.environment ?? {}) as { kwargs?: Record<string, unknown> };
  return kwargs ? JSON.stringify(kwargs) : "{}";
}

/** Run one episode with random actions to verify an environment. */
export function ProbePanel({ shown }: { shown: KnownEnvironmentDetail }) {
  const mayOperate = useMayOperate();
  const [typed, setTyped] = useState(() => startOf(shown));
  const [steps, setSteps] = useState<string | number>(STEPS);
  const trying = useTryEnvironment();
  const { kwargs, problem } = kwargsOf(typed);
  const { data, error } = trying;
  const submit = () => kwargs && trying.mutate({ spec: shown.environment.name, kwargs, steps: Number(steps) || STEPS });
  return (
    <section aria-label="Probe">
      <h3>Probe with one episode</h3>
      <p className="small soft">
        Runs one episode with random actions in a separate process on the server, without secrets and for at most 20 s. Nothing is stored.
      </p>
      <div className={css.trying}>
        <Textarea
          size="xs"
          label="Arguments"
          description="JSON"
          autosize
          minRows={1}
          spellCheck={false}
          value={typed}
          error={problem}
          onChange={(event) => setTyped(event.currentTarget.value)}
        />
        <NumberInput size="xs" label="Max. steps" min={1} max={100_000} allowDecimal={false} value={steps} onChange={setSteps} />
        <Button
          size="xs"
          variant="default"
          loading={trying.isPending}
          disabled={!mayOperate || !kwargs}
          title={mayOperate ? undefined : TAKES_OPERATOR}
          onClick={submit}
        >
          Run probe
        </Button>
      </div>
      {error && <ErrorState title="Probe failed" error={error} />}
      {data && (
        <div role="status" data-tried={data.trouble ? "trouble" : "played"} className="small">
          <p className={data.trouble ? "held" : undefined}>{visible(probeText(data))}</p>
          {data.episode && data.episode.rewards.length > 1 && (
            <p className="soft">
              Rewards of the first {data.episode.rewards.length} steps:{" "}
              <Spark label="Rewards by step" values={data.episode.rewards.map((one) => one ?? 0)} />
            </p>
          )}
        </div>
      )}
    </section>
  );
}
