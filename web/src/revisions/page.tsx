import { Button } from "@mantine/core";
import { useState } from "react";
import type { Revision } from "../api/model";
import { useRevision, useRevisions, useRollback } from "../api/revisions";
import { useDomain } from "../app/domain";
import { ago, at } from "../format/time";
import { useMay } from "../session/session";
import { ConfirmDelete } from "../ui/confirm-delete";
import { type Column, DataTable } from "../ui/data-table";
import { Mark, Tag } from "../ui/mark";
import { Page, Panel } from "../ui/page";
import { sayStored } from "../ui/save";
import { Empty, Loaded } from "../ui/state";
import classes from "./page.module.css";

export default function RevisionsPage() {
  const domain = useDomain();
  const revisions = useRevisions(domain);
  const mayWrite = useMay("operator");
  const [rolling, setRolling] = useState<Revision>();
  const all = revisions.data?.pages.flatMap((page) => page.items);
  const newest = all?.[0]?.revision;
  return (
    <Page title="Revisions" lead="Every published state of the rules, who made it, and which agents run it.">
      <Panel flush>
        <Loaded query={{ ...revisions, data: all }}>
          {(list) =>
            list.length === 0 ? (
              <Empty icon="revisions" title="Nothing was published yet" />
            ) : (
              <DataTable
                label="Revisions"
                columns={columns(newest, mayWrite ? setRolling : undefined)}
                rows={list}
                rowKey={(revision) => `revision ${revision.revision}`}
                pageSize={100}
                detail={(revision) => <Detail domain={domain} revision={revision} />}
              />
            )
          }
        </Loaded>
      </Panel>
      {revisions.hasNextPage && (
        <Button variant="default" loading={revisions.isFetchingNextPage} onClick={() => void revisions.fetchNextPage()}>
          Show older ones
        </Button>
      )}
      <RollBack domain={domain} revision={rolling} onClose={() => setRolling(undefined)} />
    </Page>
  );
}

function columns(newest: number | undefined, roll: ((revision: Revision) => void) | undefined): Column<Revision>[] {
  const list: Column<Revision>[] = [
    {
      key: "revision",
      header: "Revision",
      cell: (r) => (
        <span className={classes.number}>
          <strong>{r.revision}</strong>
          {r.revision === newest && <Tag>newest</Tag>}
        </span>
      ),
    },
    { key: "summary", header: "Change", main: true, cell: (r) => <bdi>{r.summary}</bdi> },
    { key: "author", header: "By", cell: (r) => <bdi>{r.author}</bdi> },
    { key: "when", header: "When", cell: (r) => <span title={at(r.created_at)}>{ago(r.created_at, Date.now())}</span> },
  ];
  if (!roll) return list;
  const button = (r: Revision) =>
    r.revision !== newest && (
      <Button
        size="compact-sm"
        variant="subtle"
        color="gray"
        aria-label={`Roll back to revision ${r.revision}`}
        onClick={() => roll(r)}
      >
        Roll back
      </Button>
    );
  return [...list, { key: "actions", header: "Actions", actions: true, cell: button }];
}

const ACTION_SIGNS: Record<string, string> = { create: "+", update: "~", delete: "−" };

function Detail({ domain, revision }: { domain: string; revision: Revision }) {
  const full = useRevision(domain, revision.revision, true);
  return (
    <Loaded query={full} rows={2}>
      {({ changes, agents, hash }) => (
        <div className={classes.detail}>
          <ul>
            {changes.map((change) => (
              <li key={`${change.kind} ${change.name}`}>
                <span className={classes.sign} data-action={change.action} aria-hidden="true">
                  {ACTION_SIGNS[change.action] ?? "·"}
                </span>
                {change.action} {change.kind} <strong>{change.name}</strong>
              </li>
            ))}
          </ul>
          {agents && (
            <ul>
              <Agents tone="good" label="Running it" names={agents.current} />
              <Agents tone="warn" label="Pending" names={agents.pending} />
              {agents.refused.map(({ agent, errors }) => (
                <li key={agent}>
                  <Mark tone="bad">Refused by {agent}</Mark> {errors.join("; ")}
                </li>
              ))}
              <Agents tone="idle" label="Offline" names={agents.offline} />
            </ul>
          )}
          <p className={classes.soft}>hash {hash.slice(0, 16)}</p>
        </div>
      )}
    </Loaded>
  );
}

function Agents({ tone, label, names }: { tone: "good" | "warn" | "idle"; label: string; names: readonly string[] }) {
  if (names.length === 0) return null;
  return (
    <li>
      <Mark tone={tone}>
        {label}: {names.length}
      </Mark>{" "}
      <span className={classes.soft}>{names.join(", ")}</span>
    </li>
  );
}

function RollBack({
  domain,
  revision,
  onClose,
}: {
  domain: string;
  revision: Revision | undefined;
  onClose: () => void;
}) {
  const rollback = useRollback(domain);
  const close = () => {
    rollback.reset();
    onClose();
  };
  const go = async () => {
    if (!revision) return;
    const stored = await rollback.mutateAsync(revision.revision);
    sayStored(`Rolled back to revision ${revision.revision}`, domain, stored.revision);
    close();
  };
  return (
    <ConfirmDelete
      kind="revision"
      verb="Publish"
      keep="Cancel"
      name={revision && `Revision ${revision.revision}`}
      pending={rollback.isPending}
      error={rollback.error}
      onDelete={() => void go().catch(() => undefined)}
      onClose={close}
    >
      is published again as a new revision; every later change is undone. The later revisions stay in this list.
    </ConfirmDelete>
  );
}
