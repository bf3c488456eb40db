import { Anchor, Button, Tooltip } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useRuleTraffic } from "../api/analytics";
import type { Rule } from "../api/model";
import { useLint, useRules } from "../api/rules";
import { useDomain, useDomains } from "../app/domain";
import { count, plural, share } from "../format/number";
import { useMay } from "../session/session";
import { type Column, DataTable } from "../ui/data-table";
import { Icon } from "../ui/icon";
import { Mark, Tag } from "../ui/mark";
import { Notice } from "../ui/notice";
import { Page, Panel } from "../ui/page";
import { SearchInput } from "../ui/search-input";
import { Empty, Loaded } from "../ui/state";
import classes from "./list.module.css";
import { ALGORITHM_WORDS, FAILURE_WORDS, limitWords, matchWords } from "./words";

/** Requests of the last 24 hours that a rule decided: it was the strictest of those that applied. */
export interface Traffic {
  hits: number;
  denied: number;
}

type Warnings = ReadonlyMap<string, string[]>;
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
          columns={columns(warnings, traffic)}
          rows={shown}
          rowKey={(rule) => rule.name}
          sortBy="name"
          tone={(rule) => (rule.mode === "off" ? "off" : undefined)}
        />
      )}
    </>
  );
}

function columns(warnings: Warnings, traffic: ReadonlyMap<string, Traffic> | undefined): Column<Rule>[] {
  const day: Column<Rule> = {
    key: "day",
    header: "Decided in 24 h",
    numeric: true,
    sort: (rule) => traffic?.get(rule.name)?.hits ?? 0,
    cell: (rule) => <Day {...(traffic?.get(rule.name) ?? { hits: 0, denied: 0 })} />,
  };
  return [
    {
      key: "name",
      header: "Name",
      main: true,
      sort: (rule) => rule.name,
      cell: (rule) => <Name rule={rule} warnings={warnings.get(rule.name) ?? []} />,
    },
    { key: "mode", header: "State", sort: (rule) => rule.mode ?? "enforce", cell: (rule) => <Mode rule={rule} /> },
    {
      key: "match",
      header: "Match",
      sort: (rule) => matchWords(rule),
      cell: (rule) => <span className={classes.match}>{matchWords(rule)}</span>,
    },
    { key: "key", header: "Counted by", cell: (rule) => <Key parts={rule.key ?? []} /> },
    { key: "limits", header: "Limits", cell: (rule) => <Limits rule={rule} /> },
    ...(traffic ? [day] : []),
  ];
}

function Name({ rule, warnings }: { rule: Rule; warnings: string[] }) {
  return (
    <>
      <span className={classes.name}>
        <Anchor fw={600} renderRoot={(props) => <Link to="/rules/edit" search={{ name: rule.name }} {...props} />}>
          {rule.name}
        </Anchor>
        {warnings.length > 0 && (
          <Tooltip label={warnings.join(" · ")}>
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: its tooltip must open by keyboard too */}
            <span className={classes.warning} tabIndex={0} role="img" aria-label={`Warning: ${warnings.join("; ")}`}>
              <Icon name="warning" size={16} />
            </span>
          </Tooltip>
        )}
      </span>
      {rule.description && <div className={classes.description}>{rule.description}</div>}
    </>
  );
}

function Mode({ rule }: { rule: Rule }) {
  if (rule.mode === "off") return <Mark tone="idle">Off</Mark>;
  if (rule.mode === "shadow") return <Mark tone="shadow">Shadow</Mark>;
  const percent = rule.enforce_percent;
  return (
    <Mark tone="good">{typeof percent === "number" && percent < 100 ? `Enforced for ${percent} %` : "Enforced"}</Mark>
  );
}

function Key({ parts }: { parts: readonly string[] }) {
  if (parts.length === 0) return <span className={classes.soft}>one counter</span>;
  return (
    <span className={classes.tags}>
      {parts.map((part) => (
        <Tag key={part}>{part}</Tag>
      ))}
    </span>
  );
}

function Limits({ rule }: { rule: Rule }) {
  const failure = rule.on_failure && `shard away: ${FAILURE_WORDS[rule.on_failure.mode].toLowerCase()}`;
  const how = [rule.algorithm && ALGORITHM_WORDS[rule.algorithm], failure].filter(Boolean).join(" · ");
  return (
    <div className={classes.limits}>
      <dl>
        {Object.entries(rule.limits).map(([tier, limit]) => (
          <div key={tier}>
            <dt>{tier === "*" ? "all" : tier}</dt>
            <dd>{limitWords(limit)}</dd>
          </div>
        ))}
      </dl>
      {how && <span className={classes.soft}>{how}</span>}
    </div>
  );
}

function Day({ hits, denied }: Traffic) {
  if (hits === 0) return <span className={classes.soft}>none</span>;
  return (
    <span className={classes.day}>
      {count(hits)}
      <span className={classes.soft}>
        {denied === 0 ? "none denied" : `${count(denied)} denied, ${share(denied / hits)}`}
      </span>
    </span>
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
