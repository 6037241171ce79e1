import { Hint } from "@/components/Hint";
import { useNow } from "@/components/now";
import { ageSeconds, duration, utc } from "@/format";

/** The age of a timestamp, updated every second; the exact time in a tooltip. */
export function Age({ at, suffix = "" }: { at: string | null | undefined; suffix?: string }) {
  const now = useNow();
  return (
    <Hint label={utc(at)}>
      <time dateTime={at ?? undefined}>
        {duration(ageSeconds(at, now))}
        {at ? suffix : ""}
      </time>
    </Hint>
  );
}
