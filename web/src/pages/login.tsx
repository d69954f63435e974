// The way in: one password.

import { useState } from "preact/hooks";
import { ApiError, post, refreshSession, words } from "../lib/api";
import { Logo } from "../parts/logo";

export function LoginPage() {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const enter = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const password = String(new FormData(form).get("password") ?? "");
    setBusy(true);
    setProblem("");
    try {
      await post("api/v1/login", JSON.stringify({ password }), "application/json");
      await refreshSession();
    } catch (error) {
      setBusy(false);
      setProblem(loginWords(error));
      form.querySelector("input")?.select();
    }
  };
  return (
    <main class="login">
      <form class="panel" onSubmit={(event) => void enter(event)}>
        <h1>
          <Logo /> Inrush
        </h1>
        <label for="password">Password</label>
        <input
          id="password"
          name="password"
          type="password"
          autocomplete="current-password"
          required
          autofocus
          aria-describedby="login-problem"
        />
        <p id="login-problem" class="problem" role="alert">
          {problem}
        </p>
        <button type="submit" class="button primary" disabled={busy}>
          {busy ? "Logging in…" : "Log in"}
        </button>
        <p class="faint">The password is in the configuration, under admin.</p>
      </form>
    </main>
  );
}

function loginWords(error: unknown): string {
  if (error instanceof ApiError && error.status === 401) {
    return "That is not the password.";
  }
  // Others say what to do: how long to wait, or that no password is configured.
  return words(error);
}
