import { expect, it } from "vitest";
import { tokenText } from "@/pages/viewer/tokenText";

it("shows and keeps breaks and tabs of a token", () => expect(tokenText("a\n\t")).toBe("a⏎\n⇥\t"));
