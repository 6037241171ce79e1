import { Stack, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";
import type { Needs } from "@/components/commandToken";
import { TokenCommand } from "@/components/TokenCommand";
import { addressOfGuide, type GuidePage } from "@/guide";

type Fill =
  | {
      /** The exact command that produces data for this view. */
      command: string;
      /** The token that the command needs. */
      needs?: Needs;
      action?: ReactNode;
    }
  | {
      command?: undefined;
      /** Where no command produces data: the control that leads on. */
      action: Exclude<ReactNode, undefined | null>;
    };

type Props = Fill & {
  title: string;
  children: ReactNode;
  /** The page of the guide that describes the subject. */
  guide?: GuidePage;
};

/** Placeholder for an empty view: what it shows, and the command or action that fills it. */
export function EmptyState({ title, children, action, guide, ...fill }: Props) {
  return (
    <Stack align="center" gap="sm" px="lg" py="xl" ta="center" data-empty>
      <Title order={2} size="lg">
        {title}
      </Title>
      <Text className="soft" component="div" maw="34rem">
        {children}
      </Text>
      {fill.command && <TokenCommand {...fill} />}
      {action}
      {guide && <a href={addressOfGuide(guide)}>Read more in the guide</a>}
    </Stack>
  );
}
