import { Moment } from "@/components/Moment";
import { useNow } from "@/components/now";
import { visible } from "@/format";
import { useNotice } from "@/live/deck";

/** What an operator tells everybody; nothing where there is nothing to tell, or no more. */
export function Notice() {
  const notice = useNotice();
  const now = useNow();
  if (!notice || (notice.until && Date.parse(notice.until) <= now)) return null;
  return (
    <p className="notice" role="status" data-notice>
      <span aria-hidden="true">▲</span> <span className="anywhere">{visible(notice.text)}</span>{" "}
      {notice.until && (
        <>
          until <Moment at={notice.until} />
        </>
      )}
    </p>
  );
}
