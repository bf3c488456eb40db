import { Anchor, Tooltip } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { Rule } from "../api/model";
import { count, share } from "../format/number";
import type { Column } from "../ui/data-table";
import { Icon } from "../ui/icon";
import { Mark, Tag } from "../ui/mark";
import classes from "./list.module.css";
import { ALGORITHM_WORDS, FAILURE_WORDS, limitWords, matchWords } from "./words";

/** Requests of the last 24 hours that a rule decided: it was the strictest of those that applied. */
export interface Traffic {
  hits: number;
  denied: number;
}

/** What lint says, by rule. */
export type Warnings = ReadonlyMap<string, string[]>;

/** What the list of rules shows of each. */
export function ruleColumns(warnings: Warnings, traffic: ReadonlyMap<string, Traffic> | undefined): Column<Rule>[] {
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
            <dd>{limitWords(limit, rule.algorithm)}</dd>
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
