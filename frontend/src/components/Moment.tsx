import { Hint } from "@/components/Hint";
import { moment, utc } from "@/format";

/** A time in the user's time zone, with the date if it is not today; UTC in a tooltip. */
export function Moment({ at }: { at: string | null | undefined }) {
  return (
    <Hint label={utc(at)}>
      <time dateTime={at ?? undefined} className="nowrap">
        {moment(at)}
      </time>
    </Hint>
  );
}
