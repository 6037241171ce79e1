import { Tooltip } from "@mantine/core";
import { moment, utc } from "@/format";

/** A time of day, with its day where that is not today, in the zone that the reader chose; UTC on hover. */
export function Moment({ at }: { at: string | null | undefined }) {
  return (
    <Tooltip label={utc(at)}>
      <time dateTime={at ?? undefined} className="nowrap">
        {moment(at)}
      </time>
    </Tooltip>
  );
}
