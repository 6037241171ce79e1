import { Box, Button, SimpleGrid, Stack } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useMayOperate } from "@/api/session";
import { AppLink } from "@/components/inline";
import { Command } from "@/components/panels";
import { addressOfGuide } from "@/guide";

function Way({ title, children, command, action }: { title: string; children: ReactNode; command?: string; action?: ReactNode }) {
  return (
    <Stack component="section" gap="sm" p="md" align="start" justify="space-between" aria-label={title}>
      <h2>{title}</h2>
      <Box flex={1} className="soft">
        {children}
      </Box>
      {command && <Command text={command} />}
      {action}
    </Stack>
  );
}

/** Getting started on a deployment without runs: example runs, a first launch, an own trainer. */
export function Start() {
  const mayOperate = useMayOperate();
  return (
    <SimpleGrid cols={{ base: 1, md: 3 }}>
      <Way title="Load example runs" command="make example-runs">
        Restores nine recorded runs into an empty server that is stopped: an active and a failed one, a sweep, lessons, and batches in every
        state.
      </Way>
      <Way
        title="Launch a run"
        action={
          mayOperate ? (
            <Button component={AppLink} to="/runs/new?preset=cartpole">
              Launch CartPole
            </Button>
          ) : (
            <span className="faint small">Launching requires the operator role.</span>
          )
        }
      >
        The form covers every setting. CartPole learns on a laptop within two minutes:{" "}
        <a href={addressOfGuide("start/first-run")}>first run</a>.
      </Way>
      <Way
        title="Connect a trainer"
        action={
          <Button component={Link} to="/tokens" variant="default">
            Get a token
          </Button>
        }
      >
        Connect a trainer or an unmodified Atropos environment: the token page shows the code to paste.
      </Way>
    </SimpleGrid>
  );
}
