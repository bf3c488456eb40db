import { Button, Group, Select } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useAudit } from "../api/audit";
import type { AuditEntry } from "../api/model";
import { at, zone } from "../format/time";
import { type Column, DataTable } from "../ui/data-table";
import { Page, Panel } from "../ui/page";
import { SearchInput } from "../ui/search-input";
import { Empty, Loaded } from "../ui/state";
import { differences } from "./diff";
import classes from "./page.module.css";

const KINDS = ["rule", "tier", "domain", "shard", "token", "alert", "agent", "session", "sign-in-link"];

export default function AuditPage() {
  // Shards, tokens and sign-ins belong to no domain, so only a domain that was asked for narrows the list.
  const { domain } = useSearch({ from: "/shell" });
  const { kind, name } = useSearch({ from: "/shell/audit" });
  const navigate = useNavigate();
  const audit = useAudit(domain, { kind, name });
  const all = audit.data?.pages.flatMap((page) => page.items);
  const change = (part: { kind?: string | undefined; name?: string | undefined }) =>
    void navigate({ to: "/audit", search: (old) => ({ ...old, ...part }), replace: true });
  const changeName = (text: string) => change({ name: text.trim() === "" ? undefined : text.trim() });
  return (
    <Page title="Audit" lead={`Every change and who made it. Times in ${zone()}.`}>
      <Panel flush>
        <Group gap="xs" className={classes.filter}>
          <Select
            size="xs"
            w={150}
            aria-label="Kind"
            placeholder="All kinds"
            data={kind === undefined || KINDS.includes(kind) ? KINDS : [kind, ...KINDS]}
            value={kind ?? null}
            onChange={(value) => change({ kind: value ?? undefined })}
            clearable
            clearButtonProps={{ "aria-label": "All kinds" }}
          />
          <SearchInput size="xs" label="Name" placeholder="Exact name…" value={name ?? ""} onChange={changeName} />
        </Group>
        <Loaded query={{ ...audit, data: all }}>
          {(list) =>
            list.length === 0 ? (
              <Empty icon="audit" title={kind || name ? "Nothing matches this filter" : "Nothing was changed yet"} />
            ) : (
              <DataTable
                label="Changes"
                columns={COLUMNS}
                rows={list}
                rowKey={(entry) => String(entry.id)}
                pageSize={100}
                detail={(entry) => <Detail entry={entry} />}
              />
            )
          }
        </Loaded>
      </Panel>
      {audit.hasNextPage && (
        <Button variant="default" loading={audit.isFetchingNextPage} onClick={() => void audit.fetchNextPage()}>
          Show older ones
        </Button>
      )}
    </Page>
  );
}

const COLUMNS: Column<AuditEntry>[] = [
  {
    key: "what",
    header: "Change",
    main: true,
    cell: (entry) => (
      <>
        {entry.action.replaceAll("_", " ")} {entry.kind.replaceAll("-", " ")}{" "}
        <bdi className={classes.name}>{entry.name}</bdi>
      </>
    ),
  },
  { key: "domain", header: "Domain", cell: (entry) => <bdi>{entry.domain ?? "–"}</bdi> },
  { key: "author", header: "By", cell: (entry) => <bdi>{entry.author}</bdi> },
  { key: "revision", header: "Revision", numeric: true, cell: (entry) => entry.revision ?? "–" },
  { key: "at", header: "When", cell: (entry) => <span className="number">{at(entry.at)}</span> },
];

function Detail({ entry }: { entry: AuditEntry }) {
  const changed = differences(entry.before, entry.after);
  if (changed.length === 0) {
    const words = entry.before == null && entry.after == null ? "Nothing more is on record." : "No field differs.";
    return <p className={classes.soft}>{words}</p>;
  }
  return (
    <table className={classes.diff} aria-label="Changed fields">
      <tbody>
        {changed.map(({ path, before, after }) => (
          <tr key={path}>
            <th scope="row">{path || "value"}</th>
            <td>
              {before !== undefined && <del>{before}</del>} {after !== undefined && <ins>{after}</ins>}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
