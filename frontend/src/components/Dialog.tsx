import { Drawer, type DrawerProps, Modal, type ModalProps } from "@mantine/core";
import { useEscape } from "@/components/useEscape";
import { useFocusBack } from "@/components/useFocusBack";

const CLOSE = { "aria-label": "Close" };

type Ours = "opened" | "closeOnEscape" | "closeButtonProps";

/** A question or a form in the middle of the page; drawn only while it is open. */
export function Dialog(props: Omit<ModalProps, Ours>) {
  useFocusBack();
  useEscape(props.onClose);
  return <Modal opened closeOnEscape={false} closeButtonProps={CLOSE} {...props} />;
}

type SideProps = Omit<DrawerProps, Ours | "position"> & {
  /** What lies beside it stays in use: nothing is dimmed, an edge says where it ends. */
  isBeside?: boolean;
};

const BESIDE = { withOverlay: false, lockScroll: false, classNames: { content: "beside" } };

/** More about one thing, at the right of the page it was opened on; drawn only while it is open. */
export function SideSheet({ isBeside = false, ...props }: SideProps) {
  useFocusBack();
  useEscape(props.onClose);
  return <Drawer opened position="right" closeOnEscape={false} closeButtonProps={CLOSE} {...(isBeside ? BESIDE : {})} {...props} />;
}
