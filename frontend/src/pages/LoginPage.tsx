import { Box, Button, Center, Group, Paper, PasswordInput, TextInput } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type FormEvent, useEffect, useState } from "react";
import { ApiProblem } from "@/api/client";
import { useSignIn } from "@/api/session";
import { ErrorState } from "@/components/panels";
import { titleOf } from "@/shell/BrowserTab";
import { Mark } from "@/shell/Header";

/** Only paths of this dashboard are valid redirect targets. */
function safeRedirect(next: string | undefined): string {
  return next && /^\/(?![/\\])/.test(next) && !next.startsWith("/login") ? next : "/";
}

export function LoginPage() {
  const { next } = useSearch({ from: "/login" });
  const navigate = useNavigate();
  const signIn = useSignIn();
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  useEffect(() => {
    document.title = titleOf("/login");
  }, []);

  const submit = (event: FormEvent) => {
    event.preventDefault();
    signIn.mutate({ username, password }, { onSuccess: () => void navigate({ href: safeRedirect(next), replace: true }) });
  };
  const refused = signIn.error instanceof ApiProblem && signIn.error.code === "login_failed";

  return (
    <Center component="main" id="main" mih="100vh" p="md">
      <Paper component="form" onSubmit={submit} w="min(100%, 380px)" p="2rem">
        <Group gap="sm">
          <Mark size={34} />
          <Box component="h1" m={0}>
            Rolldeck
          </Box>
        </Group>
        <p className="soft">{next ? "Sign in to continue." : "Sign in to manage your rollouts."}</p>
        <TextInput
          label="User name"
          autoComplete="username"
          autoFocus
          required
          withAsterisk={false}
          value={username}
          onChange={(event) => setUsername(event.currentTarget.value)}
        />
        <PasswordInput
          label="Password"
          autoComplete="current-password"
          required
          withAsterisk={false}
          mt="sm"
          value={password}
          error={refused ? "Wrong user name or password." : undefined}
          onChange={(event) => setPassword(event.currentTarget.value)}
        />
        <Button type="submit" fullWidth mt="lg" loading={signIn.isPending}>
          Sign in
        </Button>
        {signIn.error && !refused && (
          <Box mt="md">
            <ErrorState title="Sign-in failed" error={signIn.error} />
          </Box>
        )}
        <p className="faint small">
          No account or password? On the server&rsquo;s machine, <code className="mono">manage.py createsuperuser</code> creates an account
          and <code className="mono">manage.py login_link NAME</code> prints a one-time link.
        </p>
      </Paper>
    </Center>
  );
}
