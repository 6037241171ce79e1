import { useNavigate } from "@tanstack/react-router";
import type { ComponentProps, MouseEvent } from "react";

type Props = Omit<ComponentProps<"a">, "href" | "onClick"> & { to: string };

/** A link to a dashboard URL that was built at run time, including its search parameters. */
export function AppLink({ to, ...rest }: Props) {
  const navigate = useNavigate();
  const go = (event: MouseEvent) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    void navigate({ href: to });
  };
  return <a {...rest} href={to} onClick={go} />;
}
