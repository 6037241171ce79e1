/** Start the slowest work first: request data, and render with whatever has loaded. */

import "@mantine/core/styles.css";
import "@/theme/index.css";
import { askAhead } from "@/shell/early";

askAhead(location);
void import("@/app");
