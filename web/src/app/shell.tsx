/** The frame around every page: who may come in, the navigation, and where things are. */
import { ActionIcon, Drawer } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { Link, Navigate, Outlet, useRouterState } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useSession } from "../session/session";
import { Icon } from "../ui/icon";
import { Failed, Loading } from "../ui/state";
import { Wordmark } from "../ui/wordmark";
import { Account } from "./account";
import { DomainSelect } from "./domain-select";
import { Navigation } from "./navigation";
import classes from "./shell.module.css";

export function Shell() {
  const session = useSession();
  const here = useRouterState({ select: (state) => state.location.href });
  if (session.data) return <Frame />;
  if (session.data === null) return <ToSignIn here={here} />;
  if (session.error) return <Failed error={session.error} retry={() => void session.refetch()} />;
  return <Loading />;
}

/** Remembers the page that was wanted when this appeared; the address changes on the way. */
function ToSignIn({ here }: { here: string }) {
  const [wanted] = useState(here);
  return <Navigate to="/sign-in" search={wanted === "/" ? {} : { next: wanted }} replace />;
}

function Frame() {
  const [open, menu] = useDisclosure(false);
  const path = useRouterState({ select: (state) => state.location.pathname });
  const { close } = menu;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new page, whichever, closes the menu
  useEffect(close, [path, close]);

  return (
    <div className={classes.frame}>
      <a className={classes.skip} href="#main">
        Skip to the content
      </a>
      <aside className={classes.side}>
        <Link to="/" className={classes.home} aria-label="Weir, to the overview">
          <Wordmark />
        </Link>
        <DomainSelect />
        <Navigation />
        <Account />
      </aside>
      <header className={classes.top}>
        <ActionIcon variant="subtle" color="gray" size="lg" aria-label="Open the navigation" onClick={menu.open}>
          <Icon name="menu" size={22} />
        </ActionIcon>
        <Link to="/" className={classes.home} aria-label="Weir, to the overview">
          <Wordmark />
        </Link>
      </header>
      <Drawer
        opened={open}
        onClose={close}
        size={280}
        title={<Wordmark />}
        closeButtonProps={{ "aria-label": "Close the navigation" }}
      >
        <div className={classes.drawer}>
          <DomainSelect />
          <Navigation />
          <Account />
        </div>
      </Drawer>
      <main id="main" tabIndex={-1} className={classes.main}>
        <Outlet />
      </main>
    </div>
  );
}
