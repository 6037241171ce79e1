/** Dialogs, sheets, and the reason of a change. */

import { Box, Button, Drawer, type DrawerProps, Group, Modal, type ModalProps, TextInput } from "@mantine/core";
import { readSessionStorageValue, useSessionStorage } from "@mantine/hooks";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { Boundary, ErrorState } from "@/components/panels";
import { visible } from "@/format";
import css from "./dialog.module.css";

/** Close handlers for Escape, the newest last: with a dialog above a drawer, only the dialog closes. */
const open: { current: () => void }[] = [];

function listen(event: KeyboardEvent): void {
  if (event.key !== "Escape" || event.isComposing || !(event.target instanceof Element)) return;
  // An open menu or listbox inside it handles Escape itself.
  if (event.target.closest("[role=menu], [data-mantine-stop-propagation=true]")) return;
  // Handled: elements below must not react to the same key.
  event.stopPropagation();
  open.at(-1)?.current();
}

/** Close this element on Escape while it is mounted and topmost. */
export function useEscape(onClose: () => void): void {
  const current = useRef(onClose);
  current.current = onClose;
  useEffect(() => {
    // In the capture phase: afterwards a closed list could no longer be detected.
    if (open.length === 0) window.addEventListener("keydown", listen, { capture: true });
    open.push(current);
    return () => {
      open.splice(open.indexOf(current), 1);
      if (open.length === 0) window.removeEventListener("keydown", listen, { capture: true });
    };
  }, []);
}

/** For an entry of a menu, which unmounts, the button that opened the menu; any other element itself. */
function lasting(element: Element | null): Element | null {
  const menu = element?.closest("[role=menu]");
  return (menu && document.getElementById(menu.getAttribute("aria-labelledby") ?? "")) || element;
}

let last: Element | null = null;
document.addEventListener("focusin", ({ target }) => {
  last = lasting(target as Element);
});

/** The focused element; else the last one: a menu may unmount before the code of the dialog that it opens has loaded. */
function opener(): Element | null {
  const now = document.activeElement;
  return now === null || now === document.body ? last : lasting(now);
}

/**
 * Restore focus on unmount to the element that had it on mount, for dialogs that are mounted
 * only while open.
 */
export function useFocusBack(): void {
  // Read during the first render: an effect may run after the dialog took the focus.
  const [before] = useState(opener);
  useEffect(
    () => () => {
      setTimeout(() => {
        const isFree = document.activeElement === null || document.activeElement === document.body;
        if (isFree && before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
      });
    },
    [before],
  );
}

/** The buttons of a dialog; they stay visible while its contents scroll. */
export const DialogFoot = ({ children }: { children: ReactNode }) => (
  <Group className={css.foot} justify="flex-end" mt="lg">
    {children}
  </Group>
);

const CLOSE = { "aria-label": "Close" };

type Ours = "opened" | "closeOnEscape" | "closeButtonProps";

/** A modal dialog; mounted only while open. */
export function Dialog({ children, ...props }: Omit<ModalProps, Ours>) {
  useFocusBack();
  useEscape(props.onClose);
  return (
    <Modal opened closeOnEscape={false} closeButtonProps={CLOSE} {...props}>
      <div className={css.body}>
        <Boundary part="Dialog">{children}</Boundary>
      </div>
    </Modal>
  );
}

type SideProps = Omit<DrawerProps, Ours | "position"> & {
  /** Without an overlay: the page beside the sheet stays usable. */
  isBeside?: boolean;
};

const BESIDE = { withOverlay: false, lockScroll: false, classNames: { content: css.beside } };

/** Details of one item in a sheet on the right; mounted only while open. */
export function SideSheet({ isBeside = false, children, ...props }: SideProps) {
  useFocusBack();
  useEscape(props.onClose);
  return (
    <Drawer opened position="right" closeOnEscape={false} closeButtonProps={CLOSE} {...(isBeside ? BESIDE : {})} {...props}>
      <div className={css.body}>
        <Boundary part="Dialog">{children}</Boundary>
      </div>
    </Drawer>
  );
}

const keyOf = (key: string) => `rolldeck-draft:${key}`;

/** A draft in session storage; kept until it is sent or discarded. */
export function useDraft(key: string): [text: string, setText: (text: string) => void] {
  const [text, setText] = useSessionStorage({ key: keyOf(key), defaultValue: "", getInitialValueInEffect: false });
  return [text, setText];
}

export const hasDraft = (key: string): boolean => readSessionStorageValue({ key: keyOf(key), defaultValue: "" }) !== "";

export const deleteDraft = (key: string): void => sessionStorage.removeItem(keyOf(key));

export const RECORDED_IN_AUDIT = "Recorded with your name in the audit log.";
export const RECORDED_IN_EVENTS = "Recorded with your name in the run's events.";

type Props = {
  title: string;
  size?: string;
  /** The state of the mutation. */
  asking: { isPending: boolean; error: Error | null };
  /** Title of the error message. */
  refused: string;
  submit: string;
  /** Where the reason is recorded; null for a form without one. */
  recordedIn?: string | null;
  /** Whether the dialog's contents are valid. */
  isReady?: boolean;
  /** Whether a reason is required. */
  needsReason?: boolean;
  /** Text to type before the change, such as a name or a number. */
  typed?: string;
  destroys?: boolean;
  onSubmit: (reason: string) => void;
  onClose: () => void;
  /** The effects of the action and its options; the first `data-autofocus` element gets focus. */
  children?: ReactNode;
};

/** Confirm a change: its effects, the reason, and the server's error if any. Mounted only while open. */
export function ReasonDialog({
  title,
  size,
  asking,
  refused,
  submit,
  recordedIn = RECORDED_IN_AUDIT,
  isReady: isFit = true,
  needsReason,
  typed,
  destroys,
  onSubmit,
  onClose,
  children,
}: Props) {
  const [reason, setReason] = useDraft(title);
  // Kept while the session ends; dropped by a close, and by a submit that was not refused.
  const isDone = useRef(false);
  useEffect(() => () => void (isDone.current && deleteDraft(title)), [title]);
  useEffect(() => {
    if (asking.error) isDone.current = false;
  }, [asking.error]);
  const close = () => {
    isDone.current = true;
    onClose();
  };
  const [confirmed, setConfirmed] = useState("");
  const isReady = isFit && (!needsReason || reason.trim() !== "") && (typed === undefined || confirmed.trim() === typed);
  return (
    <Dialog onClose={close} title={title} size={size}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          // Otherwise a form around this dialog would handle the submit event.
          event.stopPropagation();
          if (!isReady || asking.isPending) return;
          isDone.current = true;
          onSubmit(reason);
        }}
      >
        {children}
        {recordedIn && (
          <TextInput
            mt="md"
            label="Reason"
            description={recordedIn}
            value={reason}
            maxLength={2000}
            required={needsReason}
            data-autofocus
            onChange={(event) => setReason(event.currentTarget.value)}
          />
        )}
        {typed !== undefined && (
          <TextInput
            mt="md"
            label={`Type ${visible(typed)} to confirm`}
            value={confirmed}
            required
            autoComplete="off"
            spellCheck={false}
            onChange={(event) => setConfirmed(event.currentTarget.value)}
          />
        )}
        {asking.error && (
          <Box mt="md">
            <ErrorState title={refused} error={asking.error} />
          </Box>
        )}
        <DialogFoot>
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button type="submit" color={destroys ? "red.8" : undefined} loading={asking.isPending} disabled={!isReady}>
            {submit}
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  );
}
