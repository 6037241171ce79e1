import { duration } from "@/format";
import { useLiveStatus } from "@/live/live";

/** For how long the server has not answered, once shown values may be outdated; else null. */
export function useOutage(): string | null {
  const { isOutdated, silentMs } = useLiveStatus();
  return isOutdated ? duration(Math.floor(silentMs / 1000)) : null;
}

/** The age of the values beside it, while the server does not answer. */
export function Outdated() {
  const silence = useOutage();
  return silence && <span className="held small" data-outdated>{`Outdated: no server for ${silence}. `}</span>;
}
