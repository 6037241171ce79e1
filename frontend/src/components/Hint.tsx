import { useTimeout } from "@mantine/hooks";
import { cloneElement, type FocusEvent, type PointerEvent, type ReactElement, type ReactNode, useId, useRef, useState } from "react";
import { onDemand } from "@/components/onDemand";

const HintBox = onDemand(() => import("@/components/HintBox"), "HintBox");
const HOVER_MS = 200;

type Pointed = (event: PointerEvent<HTMLElement>) => void;
type Focused = (event: FocusEvent<HTMLElement>) => void;
type Target = { "aria-describedby"?: string; onPointerEnter?: Pointed; onPointerLeave?: Pointed; onFocus?: Focused; onBlur?: Focused };

/** A tooltip of one element, shown by pointer, touch or keyboard focus. Its code is loaded when it is first shown. */
export function Hint({ label, children }: { label: ReactNode; children: ReactElement<Target> }) {
  const [target, setTarget] = useState<HTMLElement | null>(null);
  const [isOpen, setOpen] = useState(false);
  const isTouched = useRef(false);
  const hover = useTimeout(() => setOpen(true), HOVER_MS);
  const id = useId();
  const close = () => {
    hover.clear();
    setOpen(false);
  };
  return (
    <>
      {cloneElement(children, {
        ...(isOpen ? { "aria-describedby": id } : {}),
        onPointerEnter: (event) => {
          isTouched.current = event.pointerType === "touch";
          setTarget(event.currentTarget);
          hover.start();
        },
        onPointerLeave: close,
        onFocus: (event) => {
          if (!isTouched.current && !event.target.matches(":focus-visible")) return;
          setTarget(event.currentTarget);
          setOpen(true);
        },
        onBlur: close,
      })}
      {target && <HintBox id={id} target={target} label={label} isOpen={isOpen} onDismiss={close} />}
    </>
  );
}
