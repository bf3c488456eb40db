import { ActionIcon, Button } from "@mantine/core";
import { useState } from "react";
import { type ShardHealth, shardHealth } from "../agents/convergence";
import { useAgents } from "../api/agents";
import type { Shard } from "../api/model";
import { useDeleteShard, useShards } from "../api/shards";
import { count } from "../format/number";
import { useMay } from "../session/session";
import { ConfirmDelete } from "../ui/confirm-delete";
import { type Column, DataTable } from "../ui/data-table";
import { Icon } from "../ui/icon";
import { Mark } from "../ui/mark";
import { Page, Panel } from "../ui/page";
import { sayStored } from "../ui/save";
import { Empty, Loaded } from "../ui/state";
import { ShardForm } from "./form";
import classes from "./page.module.css";

export default function ShardsPage() {
  const shards = useShards();
  const agents = useAgents();
  const mayWrite = useMay("admin");
  const [editing, setEditing] = useState<Shard | "new">();
  const [deleting, setDeleting] = useState<Shard>();
  const health = new Map(shardHealth(agents.data ?? [], []).map((h) => [h.shard, h]));
  return (
    <Page
      title="Shards"
      lead="The Redis or Valkey servers that hold the counters. A change moves a part of the counters, and those start again."
      actions={
        mayWrite && (
          <Button leftSection={<Icon name="plus" />} onClick={() => setEditing("new")}>
            New shard
          </Button>
        )
      }
    >
      <Panel flush>
        <Loaded query={shards}>
          {(all) =>
            all.length === 0 ? (
              <Empty icon="shards" title="No shards yet">
                Without one each agent counts for itself, so a limit holds per agent and not for the whole fleet.
              </Empty>
            ) : (
              <DataTable
                label="Shards"
                columns={columns(all, health, mayWrite ? { edit: setEditing, remove: setDeleting } : undefined)}
                rows={all}
                rowKey={(shard) => shard.name}
                sortBy="name"
                tone={(shard) => (health.get(shard.name)?.tone === "bad" ? "bad" : undefined)}
              />
            )
          }
        </Loaded>
      </Panel>
      {editing && (
        <ShardForm
          {...(editing === "new" ? {} : { before: editing })}
          reread={async () => (await shards.refetch()).data}
          onClose={() => setEditing(undefined)}
        />
      )}
      <DeleteShard shard={deleting} onClose={() => setDeleting(undefined)} />
    </Page>
  );
}

interface Actions {
  edit: (shard: Shard) => void;
  remove: (shard: Shard) => void;
}

function columns(
  all: readonly Shard[],
  health: ReadonlyMap<string, ShardHealth>,
  actions: Actions | undefined,
): Column<Shard>[] {
  const weights = all.reduce((sum, shard) => sum + (shard.weight ?? 1), 0);
  const list: Column<Shard>[] = [
    {
      key: "name",
      header: "Name",
      main: true,
      sort: (shard) => shard.name,
      cell: (shard) => <strong>{shard.name}</strong>,
    },
    { key: "state", header: "State", cell: (shard) => <State health={health.get(shard.name)} /> },
    { key: "warnings", header: "Warnings", cell: (shard) => <Warnings warnings={shard.warnings ?? []} /> },
    {
      key: "address",
      header: "Address",
      sort: (shard) => shard.address,
      cell: (shard) => <bdi className={classes.address}>{shard.address}</bdi>,
    },
    {
      key: "weight",
      header: "Weight",
      numeric: true,
      sort: (shard) => shard.weight ?? 1,
      cell: (shard) =>
        `${count(shard.weight ?? 1)} (${Math.round((100 * (shard.weight ?? 1)) / Math.max(1, weights))} % of keys)`,
    },
    {
      key: "access",
      header: "Access",
      cell: (shard) =>
        shard.has_password ? `${shard.username ?? "default user"}, with password` : (shard.username ?? "no password"),
    },
  ];
  if (!actions) return list;
  const buttons = (shard: Shard) => (
    <>
      <ActionIcon
        variant="subtle"
        color="gray"
        aria-label={`Edit shard ${shard.name}`}
        onClick={() => actions.edit(shard)}
      >
        <Icon name="edit" />
      </ActionIcon>
      <ActionIcon
        variant="subtle"
        color="gray"
        aria-label={`Delete shard ${shard.name}`}
        onClick={() => actions.remove(shard)}
      >
        <Icon name="trash" />
      </ActionIcon>
    </>
  );
  return [...list, { key: "actions", header: "Actions", actions: true, cell: buttons }];
}

function State({ health }: { health: ShardHealth | undefined }) {
  if (!health || health.watching === 0) return <Mark tone="idle">No agent looks at it</Mark>;
  const { tone, reached, watching, error } = health;
  return (
    <span title={error}>
      <Mark tone={tone}>{reached === watching ? "Reached by all agents" : `Reached by ${reached} of ${watching}`}</Mark>
    </span>
  );
}

function Warnings({ warnings }: { warnings: NonNullable<Shard["warnings"]> }) {
  return (
    <ul className={classes.warnings}>
      {warnings.map((warning) => (
        <li key={warning.code}>{warning.text}</li>
      ))}
    </ul>
  );
}

function DeleteShard({ shard, onClose }: { shard: Shard | undefined; onClose: () => void }) {
  const remove = useDeleteShard();
  const close = () => {
    remove.reset();
    onClose();
  };
  const go = async () => {
    if (!shard) return;
    await remove.mutateAsync(shard);
    sayStored(`Shard ${shard.name} deleted`, "", undefined);
    close();
  };
  return (
    <ConfirmDelete
      kind="shard"
      name={shard?.name}
      pending={remove.isPending}
      error={remove.error}
      onDelete={() => void go().catch(() => undefined)}
      onClose={close}
    >
      leaves the ring. The counters it holds start again on the other shards.
    </ConfirmDelete>
  );
}
