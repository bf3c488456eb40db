import { Button } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useRuleTraffic } from "../api/analytics";
import type { Rule } from "../api/model";
import { useLint, useRules } from "../api/rules";
import { useDomain, useDomains } from "../app/domain";
import { count, plural } from "../format/number";
import { useMay } from "../session/session";
import { DataTable } from "../ui/data-table";
import { Icon } from "../ui/icon";
import { Notice } from "../ui/notice";
import { Page, Panel } from "../ui/page";
import { SearchInput } from "../ui/search-input";
import { Empty, Loaded } from "../ui/state";
import { ruleColumns, type Traffic, type Warnings } from "./columns";
import classes from "./list.module.css";
import { matchWords } from "./words";

const NO_WARNINGS: Warnings = new Map();

export default function RulesPage() {
  const domain = useDomain();
  const rules = useRules(domain);
  const lint = useLint(domain);
  const traffic = useRuleTraffic(domain);
  const mayWrite = useMay("operator");
  const create = mayWrite && (
    <Button leftSection={<Icon name="plus" />} renderRoot={(props) => <Link to="/rules/new" {...props} />}>
      New rule
    </Button>
  );
  return (
    <Page
      title="Rules"
      lead="Which requests are limited, by what they are counted, and how much may pass."
      actions={create}
    >
      <DomainMode domain={domain} />
      <Panel flush>
        <Loaded query={rules}>
          {(all) =>
            all.length === 0 ? (
              <Empty icon="rules" title="No rules yet">
                Every request passes. Create a rule here, or apply a file of them: <code>weir apply -f rules.yaml</code>
              </Empty>
            ) : (
              <RuleTable rules={all} warnings={lint.data ?? NO_WARNINGS} traffic={traffic.data} />
            )
          }
        </Loaded>
      </Panel>
    </Page>
  );
}

/** A domain's kill switch overrules what the list says, so it must be seen there. */
function DomainMode({ domain }: { domain: string }) {
  const mode = useDomains().data?.find((d) => d.name === domain)?.mode ?? "enforce";
  if (mode === "enforce") return null;
  const words =
    mode === "off"
      ? "No rule of this domain is looked at."
      : "No rule of this domain refuses anything; they only report.";
  return (
    <Notice tone="warn" title={`The domain ${domain} is in mode ${mode}`}>
      {words}
    </Notice>
  );
}

interface TableProps {
  rules: readonly Rule[];
  warnings: Warnings;
  traffic: ReadonlyMap<string, Traffic> | undefined;
}

function RuleTable({ rules, warnings, traffic }: TableProps) {
  const { q = "" } = useSearch({ from: "/shell/rules" });
  const navigate = useNavigate();
  const needle = q.toLowerCase();
  const shown = rules.filter((rule) => needle === "" || textOf(rule).includes(needle));
  const filter = (text: string) =>
    void navigate({ to: "/rules", search: { q: text === "" ? undefined : text }, replace: true });
  return (
    <>
      <div className={classes.filter}>
        <SearchInput label="Filter rules" placeholder="Filter by name, path, host, tier…" value={q} onChange={filter} />
        <span>
          {shown.length === rules.length
            ? plural(rules.length, "rule")
            : `${count(shown.length)} of ${plural(rules.length, "rule")}`}
        </span>
      </div>
      {shown.length === 0 ? (
        <Empty icon="search" title="No rule matches this filter" />
      ) : (
        <DataTable
          label="Rules"
          columns={ruleColumns(warnings, traffic)}
          rows={shown}
          rowKey={(rule) => rule.name}
          sortBy="name"
          tone={(rule) => (rule.mode === "off" ? "off" : undefined)}
        />
      )}
    </>
  );
}

function textOf(rule: Rule): string {
  const parts = [
    rule.name,
    rule.description ?? "",
    matchWords(rule),
    rule.match?.path ?? "",
    ...(rule.key ?? []),
    ...Object.keys(rule.limits),
  ];
  return parts.join(" ").toLowerCase();
}
