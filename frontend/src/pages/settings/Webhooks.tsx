import { Button, VisuallyHidden } from "@mantine/core";
import { queryOptions, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, body, useChange } from "@/api/client";
import type { components } from "@/api/schema";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import { DeliveryOutcome } from "@/components/chips";
import { DataTable } from "@/components/DataTable";
import { ReasonDialog } from "@/components/Dialog";
import { Age } from "@/components/inline";
import { EmptyState, Panel } from "@/components/panels";
import { visible } from "@/format";

type Webhook = components["schemas"]["WebhookRow"];

const REREAD_MS = 10_000;
/** Polling interval while the user waits for a result. */
const WAITING_MS = 700;
const COMMAND = "ROLLDECK_ALERT_WEBHOOKS=https://hooks.example.org/rolldeck ROLLDECK_ALERT_EMAILS=ops@example.org make serve";

const webhooksQuery = queryOptions({
  queryKey: ["webhooks"],
  queryFn: async () => (await body(api.GET("/api/v1/webhooks"))).results,
  refetchInterval: ({ state }) => (state.data?.some(({ last_test }) => last_test?.state === "waiting") ? WAITING_MS : REREAD_MS),
});

const signed = ({ channel, is_signed }: Webhook): string => (channel === "email" ? "by email" : is_signed ? "signed" : "not signed");

function Test({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const test = useChange(webhooksQuery.queryKey, (reason: string) =>
    body(api.POST("/api/v1/webhooks/{webhook}/test", { params: { path: { webhook: webhook.id } }, body: { reason } })),
  );
  const signing = webhook.is_signed ? ", signed like real alerts" : ", unsigned, as no secret is set";
  return (
    <ReasonDialog
      title={`Send a test to ${visible(webhook.target)}?`}
      asking={test}
      refused="Test failed"
      submit="Send test"
      onSubmit={(reason) => test.mutate(reason, { onSuccess: onClose })}
      onClose={onClose}
    >
      Sends one test alert{webhook.channel === "webhook" && signing}, marked as a test in its text. It is sent once, without retries.
    </ReasonDialog>
  );
}

/** Receivers of alert notifications, with their last test. */
export function Webhooks() {
  const { data, error } = useQuery(webhooksQuery);
  const mayOperate = useMayOperate();
  const [asking, setAsking] = useState<Webhook | null>(null);
  return (
    <Panel title="Notifications" note="webhooks and email">
      <DataTable<Webhook>
        label="Notification receivers"
        rows={data}
        error={error}
        empty={
          <EmptyState title="No receivers configured" command={COMMAND}>
            Fired, acknowledged and resolved alerts can be posted to a chat or pager, or sent by email. Receivers are configured in the
            server's environment.
          </EmptyState>
        }
        keyOf={({ id }) => id}
        attributes={({ id }) => ({ "data-webhook": id })}
        columns={[
          {
            id: "address",
            label: "Address",
            className: "anywhere",
            cell: (webhook) => (
              <>
                {visible(webhook.target)}
                <div className="faint small">
                  {webhook.least_severity === "error" ? "errors only" : "errors and warnings"}, {signed(webhook)}
                </div>
              </>
            ),
          },
          {
            id: "test",
            label: "Last test",
            cell: ({ last_test: test }) => (
              <div aria-live="polite">
                {test ? <DeliveryOutcome delivery={test} /> : <span className="faint small">never tested</span>}
                {test && (
                  <div className="faint small">
                    <Age at={test.created_at} suffix=" ago" />
                  </div>
                )}
              </div>
            ),
          },
          {
            id: "actions",
            label: <VisuallyHidden>Actions</VisuallyHidden>,
            isNumber: true,
            cell: (webhook) => (
              <Button
                size="compact-sm"
                variant="default"
                aria-label={`Test ${visible(webhook.target)}`}
                disabled={!mayOperate}
                onClick={() => setAsking(webhook)}
                title={mayOperate ? "Send a test alert and show the result" : TAKES_OPERATOR}
              >
                Test
              </Button>
            ),
          },
        ]}
      />
      {asking && <Test webhook={asking} onClose={() => setAsking(null)} />}
    </Panel>
  );
}
