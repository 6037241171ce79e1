/** Begin with what takes longest: ask the server, and draw with what loads meanwhile. */

import "@mantine/core/styles.css";
import "@/theme/index.css";
import { askAhead } from "@/shell/early";

askAhead(location);
void import("@/app");
