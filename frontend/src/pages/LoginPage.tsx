import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type FormEvent, useEffect, useState } from "react";
import { ApiProblem } from "@/api/problems";
import { useSignIn } from "@/api/session";
import { ErrorState } from "@/components/ErrorState";
import css from "@/pages/login.module.css";
import { Mark } from "@/shell/Mark";
import { titleOf } from "@/shell/titles";

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
    <main className={css.login} id="main">
      <form onSubmit={submit} className={`panel ${css.loginBox}`}>
        <div className={css.loginBrand}>
          <Mark size={34} />
          <h1>Rolldeck</h1>
        </div>
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
          <div style={{ marginTop: "1rem" }}>
            <ErrorState title="Sign-in failed" error={signIn.error} />
          </div>
        )}
        <p className={`faint small ${css.loginHint}`}>
          No account or password? On the server&rsquo;s machine, <code className="mono">manage.py createsuperuser</code> creates an account
          and <code className="mono">manage.py login_link NAME</code> prints a one-time link.
        </p>
      </form>
    </main>
  );
}
