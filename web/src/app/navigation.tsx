import { Link } from "@tanstack/react-router";
import { Icon, type IconName } from "../ui/icon";
import classes from "./navigation.module.css";

interface Place {
  to: "/" | "/rules" | "/tiers" | "/alerts" | "/agents" | "/shards" | "/revisions" | "/audit" | "/tokens";
  label: string;
  icon: IconName;
}

const GROUPS: { title: string; places: Place[] }[] = [
  {
    title: "Traffic",
    places: [
      { to: "/", label: "Overview", icon: "overview" },
      { to: "/alerts", label: "Alerts", icon: "alerts" },
    ],
  },
  {
    title: "Limits",
    places: [
      { to: "/rules", label: "Rules", icon: "rules" },
      { to: "/tiers", label: "Tiers", icon: "tiers" },
    ],
  },
  {
    title: "Fleet",
    places: [
      { to: "/agents", label: "Agents", icon: "agents" },
      { to: "/shards", label: "Shards", icon: "shards" },
    ],
  },
  {
    title: "Record",
    places: [
      { to: "/revisions", label: "Revisions", icon: "revisions" },
      { to: "/audit", label: "Audit", icon: "audit" },
      { to: "/tokens", label: "Tokens", icon: "tokens" },
    ],
  },
];

export function Navigation() {
  return (
    <nav aria-label="Pages" className={classes.nav}>
      {GROUPS.map(({ title, places }) => (
        <div key={title} className={classes.group}>
          <span className={classes.title} aria-hidden="true">
            {title}
          </span>
          <ul>
            {places.map(({ to, label, icon }) => (
              <li key={to}>
                <Link
                  to={to}
                  className={classes.link}
                  activeOptions={{ exact: to === "/", includeSearch: false }}
                  activeProps={{ "data-here": true, "aria-current": "page" } as object}
                >
                  <Icon name={icon} />
                  {label}
                </Link>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}
