import { Moment } from "@/components/Moment";
import { useNow } from "@/components/now";
import { visible } from "@/format";
import { useNotice } from "@/live/deployment";
import css from "@/shell/shell.module.css";

/** The operators' notice to all users; hidden if there is none or it has expired. */
export function Notice() {
  const notice = useNotice();
  const now = useNow();
  if (!notice || (notice.until && Date.parse(notice.until) <= now)) return null;
  return (
    <p className={css.notice} role="status" data-notice>
      <span aria-hidden="true">▲</span> <span className="anywhere">{visible(notice.text)}</span>{" "}
      {notice.until && (
        <>
          until <Moment at={notice.until} />
        </>
      )}
    </p>
  );
}
