/** The name with its sign: water that runs level, falls over the edge, and runs on. */
import classes from "./wordmark.module.css";

export function Wordmark({ large = false }: { large?: boolean }) {
  return (
    <span className={classes.wordmark} data-large={large || undefined}>
      <svg viewBox="0 0 32 32" aria-hidden="true" focusable="false">
        <rect width="32" height="32" rx="8" />
        <g>
          <path d="M5.5 10.5h8.2c3 0 3.6 2 4.4 5.2.800 3.3 1.6 5.3 4.6 5.3h3.8" />
          <path d="M5.5 16.2h5.2c2 0 2.4 1.2 3 3.6.800 3.4 1.8 6.2 5.4 6.2h7.4" opacity=".55" />
          <path d="M20.5 6.5v6" opacity=".9" />
        </g>
      </svg>
      <span>Weir</span>
    </span>
  );
}
