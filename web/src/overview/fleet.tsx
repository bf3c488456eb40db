/** Agents, shards and alerts at a glance. */
import { Anchor } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { type Convergence, convergence, type ShardHealth, shardHealth } from "../agents/convergence";
import { useAgents } from "../api/agents";
import { useAlerts } from "../api/alerts";
import { useShards } from "../api/shards";
import { share } from "../format/number";
import { ago } from "../format/time";
import { Mark } from "../ui/mark";
import { Panel } from "../ui/page";
import { Loaded } from "../ui/state";
import classes from "./fleet.module.css";

export function Fleet({ domain }: { domain: string }) {
  const agents = useAgents();
  const shards = useShards();
  const names = shards.data?.map((shard) => shard.name) ?? [];
  return (
    <div className={classes.fleet}>
      <Panel title="Agents" aside={<More to="/agents" what="All agents" />}>
        <Loaded query={agents} rows={2}>
          {(all) => <Converged state={convergence(all, domain)} />}
        </Loaded>
      </Panel>
      <Panel title="Shards" aside={<More to="/shards" what="All shards" />}>
        <Loaded query={agents} rows={2}>
          {(all) => <ShardList shards={shardHealth(all, names)} />}
        </Loaded>
      </Panel>
      <OpenAlerts domain={domain} />
    </div>
  );
}

function More({ to, what }: { to: "/agents" | "/shards" | "/alerts"; what: string }) {
  return (
    <Anchor size="sm" renderRoot={(props) => <Link to={to} {...props} />}>
      {what}
    </Anchor>
  );
}

function Converged({ state }: { state: Convergence }) {
  const { connected, current, latest, refused, pending, offline } = state;
  if (connected === 0) {
    const words = offline.length === 0 ? "No agent has connected yet." : `None connected; ${offline.length} known.`;
    return <Mark tone={offline.length === 0 ? "idle" : "bad"}>{words}</Mark>;
  }
  const tone = refused.length > 0 ? "bad" : current < connected ? "warn" : "good";
  return (
    <div className={classes.list}>
      <div className={classes.lead}>
        <Mark tone={tone}>
          <span className={classes.big}>
            {current} of {connected}
          </span>
        </Mark>
        <span>on revision {latest}</span>
      </div>
      <Names label="Refused it" names={refused} />
      <Names label="Pending" names={pending} />
      <Names label="Offline" names={offline} />
    </div>
  );
}

const SHOWN_NAMES = 4;

function Names({ label, names }: { label: string; names: readonly string[] }): ReactNode {
  if (names.length === 0) return null;
  const more = names.length - SHOWN_NAMES;
  return (
    <div className={classes.names}>
      {label}: {names.slice(0, SHOWN_NAMES).join(", ")}
      {more > 0 && ` and ${more} more`}
    </div>
  );
}

function ShardList({ shards }: { shards: readonly ShardHealth[] }) {
  if (shards.length === 0) return <span className={classes.names}>No shards: each agent counts for itself.</span>;
  return (
    <ul className={classes.list}>
      {shards.map(({ shard, tone, reached, watching, error }) => (
        <li key={shard}>
          <Mark tone={tone}>{shard}</Mark>
          <span className={classes.names} title={error}>
            {watching === 0
              ? "no agent looks at it"
              : reached === watching
                ? "reached"
                : `reached by ${reached} of ${watching}`}
          </span>
        </li>
      ))}
    </ul>
  );
}

function OpenAlerts({ domain }: { domain: string }) {
  const alerts = useAlerts(domain);
  return (
    <Panel title="Open alerts" aside={<More to="/alerts" what="All alerts" />}>
      <Loaded query={alerts} rows={1}>
        {(all) => {
          const firing = all.filter((alert) => alert.state?.firing);
          if (firing.length === 0) return <Mark tone="idle">{all.length === 0 ? "None set up" : "None"}</Mark>;
          return (
            <ul className={classes.list}>
              {firing.map((alert) => (
                <li key={alert.name}>
                  <Anchor renderRoot={(props) => <Link to="/" search={{ rule: alert.rule, range: "1h" }} {...props} />}>
                    <Mark tone="bad">{alert.name}</Mark>
                  </Anchor>
                  <span className={classes.names}>
                    {share(alert.state?.denied_share ?? Number.NaN)} denied, {ago(alert.state?.since, Date.now())}
                  </span>
                </li>
              ))}
            </ul>
          );
        }}
      </Loaded>
    </Panel>
  );
}
