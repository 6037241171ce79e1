import { Skeleton } from "@mantine/core";

/** Grey shapes of the size of what is coming, so that nothing jumps. */
export function Skeletons({ heights }: { heights: number[] }) {
  return (
    <div role="status" aria-label="Loading" style={{ display: "grid", gap: "1rem" }}>
      {heights.map((height, i) => (
        <Skeleton key={i} height={height} radius="md" />
      ))}
    </div>
  );
}
