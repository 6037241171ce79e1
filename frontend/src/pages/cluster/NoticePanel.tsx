import { Button, TextInput } from "@mantine/core";
import { useState } from "react";
import { useClearNotice, useSetNotice } from "@/api/deployment";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import { Hint } from "@/components/Hint";
import { Moment } from "@/components/Moment";
import { Panel } from "@/components/Panel";
import { ReasonDialog } from "@/components/ReasonDialog";
import { visible } from "@/format";
import { useNotice } from "@/live/deployment";
import css from "./cluster.module.css";

const LONGEST = 300;

/** Set a notice that is shown on every page. */
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
      note="shown above every page, to all users"
      className="span-12"
      aside={
        <Hint label={mayOperate ? "Announce maintenance or other events, with an optional end time." : TAKES_OPERATOR}>
          <Button size="compact-sm" variant="default" disabled={!mayOperate} onClick={() => setOpen("set")}>
            {notice ? "Edit notice" : "Set notice"}
          </Button>
        </Hint>
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
              "no end time"
            )}
            , by {visible(notice.set_by)}
            {notice.reason && `: ${visible(notice.reason)}`}
          </span>{" "}
          <Button size="compact-xs" variant="default" disabled={!mayOperate} onClick={() => setOpen("clear")}>
            Remove notice
          </Button>
        </p>
      ) : (
        <p className={`soft small ${css.problem}`}>No notice is set.</p>
      )}
      {open === "set" && (
        <ReasonDialog
          title="Set notice"
          asking={set}
          refused="Notice not set"
          submit="Set notice"
          isReady={text.trim() !== ""}
          onSubmit={(reason) =>
            set.mutate({ text: text.trim(), reason, until: until ? new Date(until).toISOString() : null }, { onSuccess: close })
          }
          onClose={close}
        >
          <TextInput
            label="Notice"
            description="Shown on every page until it expires or is removed."
            value={text}
            maxLength={LONGEST}
            data-autofocus
            onChange={(event) => setText(event.currentTarget.value)}
          />
          <TextInput
            mt="md"
            type="datetime-local"
            label="Until"
            description="In this browser's time zone; empty: until removed."
            value={until}
            onChange={(event) => setUntil(event.currentTarget.value)}
          />
        </ReasonDialog>
      )}
      {open === "clear" && (
        <ReasonDialog
          title="Remove notice"
          asking={clear}
          refused="Notice not removed"
          submit="Remove notice"
          onSubmit={(reason) => clear.mutate(reason, { onSuccess: close })}
          onClose={close}
        >
          <p>The notice is removed from every page.</p>
        </ReasonDialog>
      )}
    </Panel>
  );
}
