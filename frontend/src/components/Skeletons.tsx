import { Skeleton } from "@mantine/core";

/** Placeholder blocks of the final size, so that the layout does not shift. */
export function Skeletons({ heights }: { heights: number[] }) {
  return (
    <div role="status" aria-label="Loading" style={{ display: "grid", gap: "1rem" }}>
      {heights.map((height, i) => (
        <Skeleton key={i} height={height} radius="md" />
      ))}
    </div>
  );
}
