import { Button, TextInput, Tooltip } from "@mantine/core";
import { useState } from "react";
import { useClearNotice, useSetNotice } from "@/api/deck";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import { Moment } from "@/components/Moment";
import { Panel } from "@/components/Panel";
import { ReasonDialog } from "@/components/ReasonDialog";
import { visible } from "@/format";
import { useNotice } from "@/live/deck";
import css from "./cluster.module.css";

const LONGEST = 300;

/** Tell everybody something, on every page. */
export function NoticePanel() {
  const mayOperate = useMayOperate();
  const notice = useNotice();
  const [open, setOpen] = useState<"" | "set" | "clear">("");
  const [text, setText] = useState("");
  const [until, setUntil] = useState("");
  const set = useSetNotice();
  const clear = useClearNotice();
  const close = () => setOpen("");
  return (
    <Panel
      title="Notice"
      note="stands above every page, for everybody"
      className="span-12"
      aside={
        <Tooltip label={mayOperate ? "Say what is going to happen to the deck, and until when." : TAKES_OPERATOR}>
          <Button size="compact-sm" variant="default" disabled={!mayOperate} onClick={() => setOpen("set")}>
            {notice ? "Change it" : "Tell everybody"}
          </Button>
        </Tooltip>
      }
    >
      {notice ? (
        <p className={`anywhere ${css.problem}`} data-notice-set>
          {visible(notice.text)}{" "}
          <span className="soft small">
            {notice.until ? (
              <>
                until <Moment at={notice.until} />
              </>
            ) : (
              "until it is taken down"
            )}
            , by {visible(notice.set_by)}
            {notice.reason && `: ${visible(notice.reason)}`}
          </span>{" "}
          <Button size="compact-xs" variant="default" disabled={!mayOperate} onClick={() => setOpen("clear")}>
            Take it down
          </Button>
        </p>
      ) : (
        <p className={`soft small ${css.problem}`}>Nobody is told anything.</p>
      )}
      {open === "set" && (
        <ReasonDialog
          title="Tell everybody"
          asking={set}
          refused="Nobody is told"
          submit="Tell everybody"
          isReady={text.trim() !== ""}
          onSubmit={(reason) =>
            set.mutate({ text: text.trim(), reason, until: until ? new Date(until).toISOString() : null }, { onSuccess: close })
          }
          onClose={close}
        >
          <TextInput
            label="Notice"
            description="Every page shows it until it is over or taken down."
            value={text}
            maxLength={LONGEST}
            data-autofocus
            onChange={(event) => setText(event.currentTarget.value)}
          />
          <TextInput
            mt="md"
            type="datetime-local"
            label="Until"
            description="By this browser's clock; empty: until it is taken down."
            value={until}
            onChange={(event) => setUntil(event.currentTarget.value)}
          />
        </ReasonDialog>
      )}
      {open === "clear" && (
        <ReasonDialog
          title="Take the notice down"
          asking={clear}
          refused="The notice stays"
          submit="Take it down"
          onSubmit={(reason) => clear.mutate(reason, { onSuccess: close })}
          onClose={close}
        >
          <p>No page shows it any more.</p>
        </ReasonDialog>
      )}
    </Panel>
  );
}
