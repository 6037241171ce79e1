import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import { Age } from "@/components/Age";
import { DeliveryOutcome } from "@/components/DeliveryOutcome";
import { EmptyState } from "@/components/EmptyState";
import { ErrorState } from "@/components/ErrorState";
import { Panel } from "@/components/Panel";
import { ReasonDialog } from "@/components/ReasonDialog";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { visible } from "@/format";
import { useWebhookTest, type Webhook, webhooksQuery } from "@/pages/settings/api";
import css from "./settings.module.css";

const COMMAND = "ROLLDECK_ALERT_WEBHOOKS=https://hooks.example.org/rolldeck ROLLDECK_ALERT_EMAILS=ops@example.org make serve";

const signed = ({ channel, is_signed }: Webhook): string => (channel === "email" ? "by email" : is_signed ? "signed" : "not signed");

function Ask({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const test = useWebhookTest();
  const signing = webhook.is_signed ? ", signed like real alerts" : ", unsigned, as no secret is set";
  return (
    <ReasonDialog
      title={`Send a test to ${visible(webhook.target)}?`}
      asking={test}
      refused="Test failed"
      submit="Send test"
      onSubmit={(reason) => test.mutate({ webhook: webhook.id, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p className={css.line}>
        Sends one test alert{webhook.channel === "webhook" && signing}, marked as a test in its text. It is sent once, without retries.
      </p>
    </ReasonDialog>
  );
}

function Row({ webhook, mayTest, onTest }: { webhook: Webhook; mayTest: boolean; onTest: () => void }) {
  const { last_test: test } = webhook;
  return (
    <tr data-webhook={webhook.id}>
      <td className="anywhere">
        {visible(webhook.target)}
        <div className="faint small">
          {webhook.least_severity === "error" ? "errors only" : "errors and warnings"}, {signed(webhook)}
        </div>
      </td>
      <td aria-live="polite">
        {test ? <DeliveryOutcome delivery={test} /> : <span className="faint small">never tested</span>}
        {test && (
          <div className="faint small">
            <Age at={test.created_at} suffix=" ago" />
          </div>
        )}
      </td>
      <td className="num">
        <Button
          size="compact-sm"
          variant="default"
          aria-label={`Test ${visible(webhook.target)}`}
          disabled={!mayTest}
          onClick={onTest}
          title={mayTest ? "Send a test alert and show the result" : TAKES_OPERATOR}
        >
          Test
        </Button>
      </td>
    </tr>
  );
}

/** Receivers of alert notifications, with their last test. */
export function Webhooks() {
  const { data, error } = useQuery(webhooksQuery);
  const mayOperate = useMayOperate();
  const [asking, setAsking] = useState<Webhook | null>(null);
  return (
    <Panel title="Notifications" note="webhooks and email">
      {error && <ErrorState title="Receivers unavailable" error={error} />}
      {!data && !error && <Skeletons heights={[60]} />}
      {data?.length === 0 && (
        <EmptyState title="No receivers configured" command={COMMAND}>
          Fired, acknowledged and resolved alerts can be posted to a chat or pager, or sent by email. Receivers are configured in the
          server's environment.
        </EmptyState>
      )}
      {data && data.length > 0 && (
        <Table label="Notification receivers" columns={["Address", "Last test", { label: <span className="unseen">Actions</span> }]}>
          {data.map((each) => (
            <Row key={each.id} webhook={each} mayTest={mayOperate} onTest={() => setAsking(each)} />
          ))}
        </Table>
      )}
      {asking && <Ask webhook={asking} onClose={() => setAsking(null)} />}
    </Panel>
  );
}
