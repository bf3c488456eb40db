/** Small marks of a state: a shape, a colour and a word, so that none of them carries the meaning alone. */
import type { ReactNode } from "react";
import classes from "./mark.module.css";

export type Tone = "good" | "warn" | "bad" | "idle" | "shadow";

const SHAPES: Record<Tone, ReactNode> = {
  good: <circle cx="5" cy="5" r="4" />,
  warn: <path d="M5 .8 9.4 9H.6Z" />,
  bad: <path d="M5 .2 9.8 5 5 9.8.2 5Z" />,
  idle: <circle cx="5" cy="5" r="3.2" fill="none" stroke="currentColor" strokeWidth="1.6" />,
  shadow: <path d="M5 1.2 8.8 5 5 8.8 1.2 5Z" fill="none" stroke="currentColor" strokeWidth="1.6" />,
};

export function Mark({ tone, children }: { tone: Tone; children: ReactNode }) {
  return (
    <span className={classes.mark} data-tone={tone}>
      <svg viewBox="0 0 10 10" aria-hidden="true" focusable="false">
        {SHAPES[tone]}
      </svg>
      {children}
    </span>
  );
}

/** A word in a box: a tier, a method, a key part. */
export function Tag({ children, soft = false }: { children: ReactNode; soft?: boolean }) {
  return (
    <span className={classes.tag} data-soft={soft || undefined}>
      <bdi>{children}</bdi>
    </span>
  );
}
