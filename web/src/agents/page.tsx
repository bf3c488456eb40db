import { Button } from "@mantine/core";
import { useState } from "react";
import { useAgents, useForgetAgent } from "../api/agents";
import type { Agent, AgentSet } from "../api/model";
import { count, plural, rate } from "../format/number";
import { ago, at } from "../format/time";
import { useMay } from "../session/session";
import { ConfirmDelete } from "../ui/confirm-delete";
import { Command } from "../ui/copy";
import { type Column, DataTable } from "../ui/data-table";
import { Freshness } from "../ui/freshness";
import { Mark } from "../ui/mark";
import { Notice } from "../ui/notice";
import { Page, Panel } from "../ui/page";
import { Empty, Loaded } from "../ui/state";
import { breakerTone, STATE_WORDS } from "./convergence";
import { AgentDetail } from "./detail";
import classes from "./page.module.css";

const START = "weir-agent --control-plane http://127.0.0.1:7071 --token-file agent.token";

export default function AgentsPage() {
  const agents = useAgents();
  const mayForget = useMay("admin");
  const [forgetting, setForgetting] = useState<Agent>();
  return (
    <Page
      title="Agents"
      lead="Who decides at the gateways, and which rules each of them runs."
      actions={<Freshness updatedAt={agents.dataUpdatedAt} error={agents.error} live />}
    >
      <Loaded query={agents}>
        {(all) => (
          <>
            <Refusals agents={all} />
            <Panel flush>
              {all.length === 0 ? (
                <Empty icon="agents" title="No agent has connected yet">
                  <p>Create a token of the kind “agent” under Tokens, then start one:</p>
                  <Command text={START} />
                </Empty>
              ) : (
                <DataTable
                  label="Agents"
                  columns={columns(mayForget ? setForgetting : undefined)}
                  rows={all}
                  rowKey={(agent) => agent.name}
                  sortBy="name"
                  tone={(agent) => (worst(agent) === "bad" ? "bad" : agent.connected ? undefined : "off")}
                  detail={(agent) => <AgentDetail agent={agent} />}
                />
              )}
            </Panel>
          </>
        )}
      </Loaded>
      <Forget agent={forgetting} onClose={() => setForgetting(undefined)} />
    </Page>
  );
}

/** A refused revision is the thing to see first. */
function Refusals({ agents }: { agents: readonly Agent[] }) {
  const refused = agents.filter((agent) => agent.connected && sets(agent).some((set) => set.state === "refused"));
  if (refused.length === 0) return null;
  return (
    <Notice tone="bad" title={`${plural(refused.length, "agent")} refused the newest revision`}>
      They go on with the last good one. Open a row to read why.
    </Notice>
  );
}

function columns(forget: ((agent: Agent) => void) | undefined): Column<Agent>[] {
  const list: Column<Agent>[] = [
    {
      key: "name",
      header: "Agent",
      main: true,
      sort: (agent) => agent.name,
      cell: (agent) => (
        <>
          <strong>{agent.name}</strong>
          <div className={classes.soft}>{agent.build}</div>
        </>
      ),
    },
    {
      key: "connected",
      header: "Stream",
      sort: (agent) => (agent.connected ? 0 : 1),
      cell: (agent) => (
        <Mark tone={agent.connected ? "good" : "idle"}>{agent.connected ? "Connected" : "Offline"}</Mark>
      ),
    },
    { key: "revision", header: "Revision", cell: (agent) => <Revisions agent={agent} /> },
    { key: "shards", header: "Shards", cell: (agent) => <Shards agent={agent} /> },
    {
      key: "rate",
      header: "Decisions/s",
      numeric: true,
      sort: (agent) => agent.decisions_per_second,
      cell: (agent) => (agent.connected ? rate(agent.decisions_per_second) : "–"),
    },
    {
      key: "drops",
      header: "Events dropped",
      numeric: true,
      sort: (agent) => agent.dropped_events,
      cell: (agent) => (agent.dropped_events > 0 ? <Mark tone="warn">{count(agent.dropped_events)}</Mark> : "0"),
    },
    {
      key: "seen",
      header: "Last seen",
      numeric: true,
      sort: (agent) => Date.parse(agent.last_seen ?? ""),
      cell: (agent) => <span title={at(agent.last_seen)}>{ago(agent.last_seen, Date.now())}</span>,
    },
  ];
  if (!forget) return list;
  const button = (agent: Agent) =>
    !agent.connected && (
      <Button size="compact-sm" variant="subtle" color="gray" onClick={() => forget(agent)}>
        Forget
      </Button>
    );
  return [...list, { key: "actions", header: "Actions", actions: true, cell: button }];
}

function Revisions({ agent }: { agent: Agent }) {
  return (
    <div className={classes.stack}>
      {agent.domains.map((set) => (
        <RevisionLine key={set.domain} set={set} named={agent.domains.length > 1} />
      ))}
    </div>
  );
}

function RevisionLine({ set, named }: { set: AgentSet; named: boolean }) {
  const { tone, label } = STATE_WORDS[set.state] ?? { tone: "idle" as const, label: set.state };
  const behind = set.latest > set.revision ? ` of ${set.latest}` : "";
  return (
    <Mark tone={tone}>
      {named && `${set.domain}: `}
      {label}, {set.revision}
      {behind}
    </Mark>
  );
}

function Shards({ agent }: { agent: Agent }) {
  if (!agent.connected) return <span className={classes.soft}>–</span>;
  if (agent.shards.length === 0) return <span className={classes.soft}>in memory</span>;
  const away = agent.shards.filter((shard) => breakerTone(shard.breaker) !== "good");
  if (away.length === 0) return <Mark tone="good">All {agent.shards.length} reached</Mark>;
  return <Mark tone="bad">{away.map((shard) => shard.shard).join(", ")} away</Mark>;
}

function sets(agent: Agent): AgentSet[] {
  return agent.ring ? [...agent.domains, agent.ring] : agent.domains;
}

function worst(agent: Agent): "bad" | undefined {
  if (!agent.connected) return undefined;
  const refused = sets(agent).some((set) => set.state === "refused");
  return refused || agent.shards.some((shard) => breakerTone(shard.breaker) === "bad") ? "bad" : undefined;
}

function Forget({ agent, onClose }: { agent: Agent | undefined; onClose: () => void }) {
  const forget = useForgetAgent();
  const close = () => {
    forget.reset();
    onClose();
  };
  const go = async () => {
    if (!agent) return;
    await forget.mutateAsync(agent.name);
    close();
  };
  return (
    <ConfirmDelete
      kind="agent"
      verb="Forget"
      name={agent?.name}
      pending={forget.isPending}
      error={forget.error}
      onDelete={() => void go().catch(() => undefined)}
      onClose={close}
    >
      is taken off this list. If it connects again it comes back.
    </ConfirmDelete>
  );
}
