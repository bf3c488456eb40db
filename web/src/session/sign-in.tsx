/** The way in: the code of a sign-in link is used at once; otherwise an API token can be pasted. */

import { Button, PasswordInput, Text, Title } from "@mantine/core";
import { useRouter } from "@tanstack/react-router";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { asApiError } from "../api/problem";
import { Notice } from "../ui/notice";
import { Wordmark } from "../ui/wordmark";
import { safeNext, takeCode } from "./code";
import { useSession, useSignIn } from "./session";
import classes from "./sign-in.module.css";

export default function SignInPage({ next }: { next: string | undefined }) {
  const router = useRouter();
  const session = useSession();
  const signIn = useSignIn();
  const [token, setToken] = useState("");
  const [byLink, setByLink] = useState(false);
  const taken = useRef(false);
  const { mutate } = signIn;

  useEffect(() => {
    document.title = "Sign in · Weir";
    // Effects can run twice; a code works once.
    if (taken.current) return;
    taken.current = true;
    const code = takeCode(window.location, window.history);
    if (code === undefined) return;
    setByLink(true);
    mutate({ code });
  }, [mutate]);

  const signedIn = Boolean(session.data) && !signIn.isPending;
  useEffect(() => {
    if (signedIn) router.history.replace(safeNext(next));
  }, [signedIn, next, router]);

  const submit = (event: FormEvent) => {
    event.preventDefault();
    setByLink(false);
    mutate({ token: token.trim() });
  };

  return (
    <main className={classes.page}>
      <div className={classes.card}>
        <Wordmark large />
        <div>
          <Title order={1}>Sign in</Title>
          <Text c="dimmed">Rate limits for all of your gateways, in one place.</Text>
        </div>
        {signIn.error && <Refused error={signIn.error} byLink={byLink} />}
        {signIn.isPending && byLink ? (
          <Text role="status">Signing in with your link…</Text>
        ) : (
          <form onSubmit={submit} className={classes.form}>
            <PasswordInput
              label="API token"
              description="It starts with weir_ and is sent only to this control plane."
              placeholder="weir_…"
              autoComplete="current-password"
              value={token}
              onChange={(event) => setToken(event.currentTarget.value)}
              data-autofocus
            />
            <Button type="submit" fullWidth loading={signIn.isPending} disabled={token.trim() === ""}>
              Sign in
            </Button>
          </form>
        )}
        <Text size="sm" c="dimmed">
          No token at hand? <code>weir dev</code> prints a one-time sign-in link, and an admin can make one for you.
        </Text>
      </div>
    </main>
  );
}

function Refused({ error, byLink }: { error: Error; byLink: boolean }) {
  const { status, title, message } = asApiError(error);
  const refused = status === 401 || status === 403;
  const heading = refused ? (byLink ? "This link no longer works" : "This token was not accepted") : title;
  const words = byLink
    ? "A sign-in link works once and for a short time. Ask for a new one, or use a token."
    : "Check that it is complete and has not expired or been revoked.";
  return (
    <Notice tone="bad" title={heading} urgent>
      {refused ? words : message}
    </Notice>
  );
}
