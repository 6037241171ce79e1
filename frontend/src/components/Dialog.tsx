import { Drawer, type DrawerProps, Modal, type ModalProps } from "@mantine/core";
import { Boundary } from "@/components/Boundary";
import { useEscape } from "@/components/useEscape";
import { useFocusBack } from "@/components/useFocusBack";

const CLOSE = { "aria-label": "Close" };

type Ours = "opened" | "closeOnEscape" | "closeButtonProps";

/** A modal dialog; mounted only while open. */
export function Dialog({ children, ...props }: Omit<ModalProps, Ours>) {
  useFocusBack();
  useEscape(props.onClose);
  return (
    <Modal opened closeOnEscape={false} closeButtonProps={CLOSE} {...props}>
      <Boundary part="Dialog">{children}</Boundary>
    </Modal>
  );
}

type SideProps = Omit<DrawerProps, Ours | "position"> & {
  /** Without an overlay: the page beside the sheet stays usable. */
  isBeside?: boolean;
};

const BESIDE = { withOverlay: false, lockScroll: false, classNames: { content: "beside" } };

/** Details of one item in a sheet on the right; mounted only while open. */
export function SideSheet({ isBeside = false, children, ...props }: SideProps) {
  useFocusBack();
  useEscape(props.onClose);
  return (
    <Drawer opened position="right" closeOnEscape={false} closeButtonProps={CLOSE} {...(isBeside ? BESIDE : {})} {...props}>
      <Boundary part="Dialog">{children}</Boundary>
    </Drawer>
  );
}
