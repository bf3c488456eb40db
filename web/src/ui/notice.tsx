import type { ReactNode } from "react";
import { Icon } from "./icon";
import classes from "./notice.module.css";

interface Props {
  tone: "warn" | "bad";
  title?: ReactNode;
  /** Said at once by screen readers. */
  urgent?: boolean;
  children?: ReactNode;
}

/** Something that must be seen before going on. */
export function Notice({ tone, title, urgent = false, children }: Props) {
  return (
    <div className={classes.notice} data-tone={tone} role={urgent ? "alert" : undefined}>
      <span className={classes.sign}>
        <Icon name="warning" size={20} />
      </span>
      <div className={classes.words}>
        {title && <strong className={classes.title}>{title}</strong>}
        {children}
      </div>
    </div>
  );
}
