/** The parts that every page is made of. */
import { Title } from "@mantine/core";
import { type ReactNode, useEffect } from "react";
import classes from "./page.module.css";

interface PageProps {
  title: string;
  /** One sentence: what this page is for. */
  lead?: ReactNode;
  /** Buttons on the right of the title. */
  actions?: ReactNode;
  children: ReactNode;
}

export function Page({ title, lead, actions, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Weir`;
  }, [title]);
  return (
    <div className={classes.page}>
      <header className={classes.header}>
        <div className={classes.heading}>
          <Title order={1}>{title}</Title>
          {lead && <p>{lead}</p>}
        </div>
        {actions && <div className={classes.actions}>{actions}</div>}
      </header>
      {children}
    </div>
  );
}

interface PanelProps {
  title?: string;
  /** Beside the title: a count, a mark, a control. */
  aside?: ReactNode;
  /** Tables reach the edges of their panel. */
  flush?: boolean;
  children: ReactNode;
}

export function Panel({ title, aside, flush = false, children }: PanelProps) {
  return (
    <section className={classes.panel} aria-label={title}>
      {(title || aside) && (
        <div className={classes.panelHead}>
          {title && <Title order={2}>{title}</Title>}
          {aside}
        </div>
      )}
      <div className={flush ? undefined : classes.panelBody} data-headed={title ? true : undefined}>
        {children}
      </div>
    </section>
  );
}
