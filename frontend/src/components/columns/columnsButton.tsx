/** The button of the columns of a list, and its menu. */

import { Button } from "@mantine/core";
import { onDemand } from "@/components/onDemand";

export const ColumnsMenu = onDemand(() => import("@/components/columns/ColumnsMenu"), "ColumnsMenu");

export const COLUMNS_BUTTON = (
  <Button size="compact-sm" variant="default" aria-haspopup="dialog">
    Columns
  </Button>
);
