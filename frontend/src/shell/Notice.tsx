import { useQuery } from "@tanstack/react-query";
import { noticeQuery } from "@/api/deck";
import { useNow } from "@/components/now";
import { dayAndClock, utc, visible } from "@/format";

/** What an operator tells everybody; nothing where there is nothing to tell, or no more. */
export function Notice() {
  const { data: notice } = useQuery(noticeQuery);
  const now = useNow();
  if (!notice || (notice.until && Date.parse(notice.until) <= now)) return null;
  return (
    <p className="notice" role="status" data-notice>
      <span aria-hidden="true">▲</span> <span className="anywhere">{visible(notice.text)}</span>{" "}
      <span className="notice-until" title={notice.until ? utc(notice.until) : undefined}>{notice.until ? `until ${dayAndClock(notice.until)}` : ""}</span>
    </p>
  );
}
