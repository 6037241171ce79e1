import { Alert, Badge, Group, Stack } from "@mantine/core";
import type { RunCheck } from "@/api/types";
import { TextButton } from "@/components/panels";
import { visible } from "@/format";

const SIGNS = { ok: "✓", info: "i", warning: "▲", error: "✕" } as const;
const TONES = { ok: "good", info: "quiet", warning: "held", error: "bad" } as const;
const RESULTS = {
  ready: { tone: "good", sign: "✓", words: "Ready to launch" },
  risky: { tone: "held", sign: "▲", words: "Launchable, with warnings" },
  refused: { tone: "bad", sign: "✕", words: "Cannot launch, or would never serve a batch" },
} as const;

type Props = { check: RunCheck; isOld: boolean; onGo: (path: string) => void };

/** Findings of a dry run, each with its remedy. */
export function Findings({ check, isOld, onGo }: Props) {
  const { tone, sign, words } = RESULTS[check.result];
  return (
    <section aria-label="Check" data-result={check.result} tabIndex={-1}>
      <Alert color={tone} icon={sign} mb="sm" title={words} role="status">
        <span className="faint tiny">{isOld ? "outdated: the form has changed" : `in ${check.seconds.toFixed(1)} s`}</span>
      </Alert>
      <Stack component="ul" gap="sm" m={0} p={0} fz="sm">
        {check.findings.map((each) => (
          <Group
            component="li"
            align="start"
            wrap="nowrap"
            gap="xs"
            key={each.subject + each.field + each.message}
            data-level={each.level}
            data-finding={each.field}
          >
            <Badge circle size="lg" color={TONES[each.level]} role="img" aria-label={each.level}>
              {SIGNS[each.level]}
            </Badge>
            <div className="anywhere">
              <b>{each.subject}</b> <span className="soft">{visible(each.message)}</span>
              {each.remedy && <div className="small">{visible(each.remedy)}</div>}
              {each.field && each.level !== "ok" && (
                <TextButton className="mono tiny" onClick={() => onGo(each.field)}>
                  {each.field}
                </TextButton>
              )}
            </div>
          </Group>
        ))}
      </Stack>
    </section>
  );
}
