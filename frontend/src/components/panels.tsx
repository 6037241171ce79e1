/** Panels of a page and their states: loading, empty, failed, outdated; commands to copy. */

import {
  Alert,
  Anchor,
  type AnchorProps,
  Box,
  Button,
  Group,
  type GroupProps,
  Paper,
  Skeleton,
  Space,
  Stack,
  Text,
  Title,
} from "@mantine/core";
import { useTimeout } from "@mantine/hooks";
import { type QueryClient, QueryClientContext, useQueryClient } from "@tanstack/react-query";
import { type ErrorComponentProps, useRouter } from "@tanstack/react-router";
import { Children, type ComponentProps, type ReactNode, use, useState, useSyncExternalStore } from "react";
import { ErrorBoundary } from "react-error-boundary";
import { type Scope, useCreateToken } from "@/api/deployment";
import { useSession } from "@/api/session";
import { copyText } from "@/charts/save";
import { duration, visible } from "@/format";
import { addressOfGuide, type GuidePage } from "@/guide";
import { useLiveStatus } from "@/live/live";
import css from "./panels.module.css";

const SHOWN_MS = 1_500;

/** A button that looks like a link. */
export const TextButton = (props: AnchorProps & Omit<ComponentProps<"button">, keyof AnchorProps>) => (
  <Anchor component="button" type="button" inherit ta="left" {...props} />
);

type CopyProps = {
  /** Text to copy; works over plain HTTP as well. */
  text: string;
  /** Names the copied text where a page has several of these buttons. */
  label?: string;
  words?: string;
  size?: "compact-xs" | "compact-sm";
};

/** Copy a text, with a flag that is true for a moment afterwards. */
export function useCopying(): { isSaid: boolean; copy: (text: string) => void } {
  const [isSaid, setSaid] = useState(false);
  const { start } = useTimeout(() => setSaid(false), SHOWN_MS);
  const copy = (text: string) => {
    copyText(text);
    setSaid(true);
    start();
  };
  return { isSaid, copy };
}

/** A button that copies a text and confirms it. */
export function Copy({ text, label, words = "Copy", size = "compact-xs" }: CopyProps) {
  const { isSaid, copy } = useCopying();
  return (
    <Button size={size} variant="default" flex="none" aria-label={isSaid ? undefined : label} onClick={() => copy(text)}>
      {isSaid ? "Copied" : words}
    </Button>
  );
}

/** A command, or lines of code, to copy. */
export function Command({ text }: { text: string }) {
  return (
    <Group
      display="inline-flex"
      wrap="nowrap"
      gap="sm"
      maw="100%"
      px="sm"
      py={6}
      ta="left"
      bd="1px solid var(--line)"
      bdrs="md"
      bg="var(--panel-sunk)"
      data-command
    >
      <Text component="code" ff="monospace" size="sm" style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>
        {text}
      </Text>
      <Copy text={text} />
    </Group>
  );
}

type Props = {
  title: string;
  error: unknown;
  next?: ReactNode;
  /** While a returned promise is pending, the button shows it. */
  onRetry?: () => unknown;
  /** Whether a report with the stack can be copied: for exceptions of the dashboard itself. */
  isCopyable?: boolean;
};

/** An exception as text for a bug report. */
function report(title: string, error: unknown): string {
  const detail = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return [title, location.href, navigator.userAgent, detail].join("\n");
}

/** An error in the server's words, with the next step. */
export function ErrorState({ title, error, next, onRetry, isCopyable = false }: Props) {
  const [isRetrying, setRetrying] = useState(false);
  const message = error instanceof Error ? error.message : String(error);
  const retry = async () => {
    setRetrying(true);
    try {
      await onRetry?.();
    } finally {
      setRetrying(false);
    }
  };
  return (
    <Alert color="red" variant="light" title={title} role="alert">
      <Text inherit style={{ overflowWrap: "anywhere" }}>
        {visible(message)}
      </Text>
      {next && <Box mt="xs">{next}</Box>}
      {(onRetry || isCopyable) && (
        <Group gap="xs" mt="sm">
          {onRetry && (
            <Button size="compact-sm" variant="default" loading={isRetrying} onClick={() => void retry()}>
              Retry
            </Button>
          )}
          {isCopyable && <Copy text={report(title, error)} words="Copy error" size="compact-sm" />}
        </Group>
      )}
    </Alert>
  );
}

type BoundaryProps = {
  /** What fails as one: the title of its error. */
  part: "Panel" | "Table" | "Dialog" | "Row" | "Message" | "View";
  /** The data that the part shows; other data renders it again. */
  data?: unknown;
  /** Around the error, where the markup demands it. */
  frame?: (error: ReactNode) => ReactNode;
  children: ReactNode;
};

/** Drop the data of parts that failed, and request that of the others again. */
async function renew(queries: QueryClient | undefined): Promise<void> {
  queries?.removeQueries({ type: "inactive" });
  await queries?.refetchQueries({ type: "active" });
}

/** A part of a page: an exception replaces this part and nothing else, until *Retry*, another address or other data. */
export function Boundary({ part, data, frame = (error) => error, children }: BoundaryProps) {
  // Parts without data, such as a table of given rows, need no client.
  const queries = use(QueryClientContext);
  return (
    <ErrorBoundary
      resetKeys={[location.href, data]}
      fallbackRender={({ error, resetErrorBoundary }) =>
        frame(<ErrorState title={`${part} failed`} error={error} isCopyable onRetry={() => renew(queries).finally(resetErrorBoundary)} />)
      }
    >
      {children}
    </ErrorBoundary>
  );
}

/** A page that failed outside of its parts; navigation and header stay. */
export function FailedPage({ error, reset }: ErrorComponentProps) {
  const queries = useQueryClient();
  const router = useRouter();
  const retry = async () => {
    await renew(queries);
    reset();
    await router.invalidate();
  };
  return <ErrorState title="Page failed" error={error} isCopyable onRetry={retry} />;
}

/** Placeholder in a command without a token. */
export const PLACE = "$ROLLDECK_TOKEN";

/** The token that a command needs: its scope and run. */
export type Needs = { scope: Scope; run?: string };
export type Made = { token: string; scopes: readonly string[]; run: string | null };

let made: Made | null = null;
const listeners = new Set<() => void>();

export function rememberToken(token: Made): void {
  made = token;
  for (const listener of listeners) listener();
}

export function useMadeToken(): Made | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => made,
  );
}

/** Whether a token satisfies a command's needs. */
export function isFit({ scopes, run }: Made, needs: Needs): boolean {
  return (scopes.includes(needs.scope) || scopes.includes("admin")) && (run === null || run === needs.run);
}

/** The shell command that calls the `rolldeck` CLI with these arguments. */
export function rolldeckCommand(words: string): string {
  return `ROLLDECK_URL=${location.origin} ROLLDECK_TOKEN=${PLACE} rolldeck ${words}`;
}

/** The command with the token inserted, if it needs one and the token fits. */
export function filled(command: string, needs: Needs | undefined, token: Made | null): string {
  return token && needs && isFit(token, needs) ? command.replaceAll(PLACE, token.token) : command;
}

const TOKEN_SECONDS = 30 * 86_400;

/** A button that creates the token that the command needs, and inserts it. */
function TokenLine({ needs }: { needs: Needs }) {
  const isAdmin = useSession()?.role === "admin";
  const create = useCreateToken();
  const request = {
    name: needs.run ? `${needs.scope} of ${needs.run}` : needs.scope,
    scopes: [needs.scope],
    run: needs.run ?? null,
    expires_in_seconds: TOKEN_SECONDS,
    networks: [],
  };
  return (
    <Text component="div" size="xs" c="dimmed">
      Requires a token with the scope {needs.scope}.{" "}
      {isAdmin ? (
        <TextButton disabled={create.isPending} onClick={() => create.mutate(request, { onSuccess: rememberToken })}>
          Create one for 30 days and insert it
        </TextButton>
      ) : (
        "An administrator can create one."
      )}
      {create.isError && <ErrorState title="Token not created" error={create.error} />}
    </Text>
  );
}

/** A command to copy, with the token inserted once there is one. */
export function TokenCommand({ command, needs }: { command: string; needs?: Needs }) {
  const text = filled(command, needs, useMadeToken());
  return (
    <>
      <Command text={text} />
      {needs && text.includes(PLACE) && <TokenLine needs={needs} />}
    </>
  );
}

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

type EmptyStateProps = Fill & {
  title: string;
  children: ReactNode;
  /** The page of the guide that describes the subject. */
  guide?: GuidePage;
};

/** Placeholder for an empty view: what it shows, and the command or action that fills it. */
export function EmptyState({ title, children, action, guide, ...fill }: EmptyStateProps) {
  return (
    <Stack align="center" gap="sm" px="lg" py="xl" ta="center" data-empty>
      <Title order={2} size="lg">
        {title}
      </Title>
      <Text c="soft" component="div" maw="34rem">
        {children}
      </Text>
      {fill.command && <TokenCommand {...fill} />}
      {action}
      {guide && <a href={addressOfGuide(guide)}>Read more in the guide</a>}
    </Stack>
  );
}

/** Placeholder blocks of the final size, so that the layout does not shift. */
export function Skeletons({ heights }: { heights: number[] }) {
  return (
    <Stack role="status" aria-label="Loading">
      {heights.map((height, i) => (
        <Skeleton key={i} height={height} />
      ))}
    </Stack>
  );
}

/** For how long the server has not answered, once shown values may be outdated; else null. */
export function useOutage(): string | null {
  const { isOutdated, silentMs } = useLiveStatus();
  return isOutdated ? duration(Math.floor(silentMs / 1000)) : null;
}

/** The age of the values beside it, while the server does not answer. */
export function Outdated() {
  const silence = useOutage();
  return silence && <Text span c="held" size="sm" data-outdated>{`Outdated: no server for ${silence}. `}</Text>;
}

type HeadProps = { title: string; note?: ReactNode; children?: ReactNode };

/** The head of a panel: of one height with and without controls, so that adjacent panels align. */
export function PanelHead({ title, note, children }: HeadProps) {
  return (
    <Group gap="4px 0.75rem" align="baseline" px={INSET} pt="sm" mih="2.95rem" data-head>
      <Title order={2} miw={0} style={{ overflowWrap: "anywhere" }}>
        {title}
      </Title>
      {note && (
        <Text span c="dimmed" size="xs" data-note>
          {note}
        </Text>
      )}
      <Space flex={1} />
      {children}
    </Group>
  );
}

/** The heading of a page, and what stands beside it. */
export function PageTitle({ title, children, ...rest }: GroupProps & { title: ReactNode }) {
  return (
    <Group mb="1.25rem" {...rest}>
      <Title style={{ overflowWrap: "anywhere" }}>{title}</Title>
      {children}
    </Group>
  );
}

/** Columns of twelve that a panel takes in a grid of panels. */
export type Columns = 4 | 6 | 8 | 12;

type PanelProps = HeadProps & {
  aside?: ReactNode;
  className?: string;
  columns?: Columns;
  target?: string;
};

const INSET = { base: "sm", sm: "md" };

/** A titled section of a page, labelled for heading navigation. */
export function Panel({ title, note, aside, className, columns, target, children }: PanelProps) {
  return (
    <Paper component="section" className={className} aria-label={title} data-target={target} data-columns={columns}>
      <PanelHead title={title} note={note}>
        {aside}
      </PanelHead>
      <Box px={INSET} pt="xs" pb="md" className={css.body}>
        <Boundary part="Panel">{children}</Boundary>
      </Box>
    </Paper>
  );
}

const panel = (error: ReactNode) => (
  <Paper component="section" aria-label="Failed panel">
    {error}
  </Paper>
);

/** Panels of a page: an error replaces only the panel in which it occurs. */
export function Guarded({ children }: { children: ReactNode }) {
  return Children.map(
    children,
    (each) =>
      each && (
        <Boundary part="Panel" frame={panel}>
          {each}
        </Boundary>
      ),
  );
}

/** The class of a grid of twelve columns, for panels with `data-columns`. */
export const PANEL_GRID = css.grid as string;

/** Panels in a grid of twelve columns; each child fails alone. */
export function Panels({ children, className = "", ...rest }: ComponentProps<"div">) {
  return (
    <div className={`${PANEL_GRID} ${className}`} {...rest}>
      <Guarded>{children}</Guarded>
    </div>
  );
}
