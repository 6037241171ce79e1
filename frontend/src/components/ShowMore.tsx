import { Button } from "@mantine/core";

export type Pages = { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown };

/** The "Show more" button of a paginated list; nothing on the last page. */
export function ShowMore({ pages, words = "Show more" }: { pages: Pages; words?: string }) {
  if (!pages.hasNextPage) return null;
  return (
    <div className="table-foot">
      <Button size="compact-sm" variant="default" loading={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
        {words}
      </Button>
    </div>
  );
}
