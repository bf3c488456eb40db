/** Who was refused most, and what exactly was refused. */
import { UnstyledButton } from "@mantine/core";
import { useDenials } from "../api/analytics";
import type { Denial, TopSubject } from "../api/model";
import { count, share } from "../format/number";
import { millisWords } from "../format/span";
import { ago, at } from "../format/time";
import { type Column, DataTable } from "../ui/data-table";
import { Tag } from "../ui/mark";
import { SearchInput } from "../ui/search-input";
import { Empty, Loaded } from "../ui/state";
import classes from "./offenders.module.css";
import type { Window } from "./range";

interface Props {
  domain: string;
  window: Window;
  subjects: readonly TopSubject[];
  /** Text that a subject must contain. */
  needle: string;
  onNeedle: (needle: string) => void;
  onRule: (rule: string) => void;
  onTier: (tier: string) => void;
}

/** From this share of refusals on, a subject stands out; but a user who met a limit once or twice is no offender. */
const MOSTLY = 0.5;
const OFTEN = 20;

export function Offenders({ domain, window, subjects, needle, onNeedle, onRule, onTier }: Props) {
  const wanted = needle.toLowerCase();
  const shown = subjects.filter((row) => row.subject.toLowerCase().includes(wanted));
  return (
    <>
      <div className={classes.filter}>
        <SearchInput
          size="xs"
          label="Filter subjects"
          placeholder="Filter by subject…"
          value={needle}
          onChange={onNeedle}
        />
      </div>
      {shown.length === 0 ? (
        <Empty
          icon="check"
          title={subjects.length === 0 ? "Nobody was refused in this range" : "No subject matches this filter"}
        />
      ) : (
        <DataTable
          label="Most throttled subjects"
          columns={columns(onRule, onTier)}
          rows={shown}
          rowKey={(row) => row.subject}
          sortBy="-denied"
          pageSize={25}
          tone={(row) => (row.denied >= OFTEN && row.denied_share >= MOSTLY ? "denied" : undefined)}
          detail={(row) => <Denials domain={domain} window={window} subject={row.subject} />}
        />
      )}
    </>
  );
}

function columns(onRule: (rule: string) => void, onTier: (tier: string) => void): Column<TopSubject>[] {
  return [
    {
      key: "subject",
      header: "Subject",
      main: true,
      sort: (row) => row.subject,
      cell: (row) => <SubjectName subject={row.subject} />,
    },
    {
      key: "rules",
      header: "Refused by",
      cell: (row) => (
        <span className={classes.tags}>
          {row.rules.map((rule) => (
            <FilterTag key={rule} what="rule" name={rule} onClick={() => onRule(rule)} />
          ))}
        </span>
      ),
    },
    {
      key: "tier",
      header: "Tier",
      sort: (row) => row.tier,
      cell: (row) => row.tier !== "" && <FilterTag what="tier" name={row.tier} onClick={() => onTier(row.tier)} />,
    },
    { key: "denied", header: "Denied", numeric: true, sort: (row) => row.denied, cell: (row) => <Denied row={row} /> },
    { key: "allowed", header: "Allowed", numeric: true, sort: (row) => row.allowed, cell: (row) => count(row.allowed) },
    {
      key: "share",
      header: "Denied share",
      numeric: true,
      sort: (row) => row.denied_share,
      cell: (row) => <ShareBar part={row.denied_share} />,
    },
    {
      key: "last",
      header: "Last refused",
      numeric: true,
      sort: (row) => Date.parse(row.last_seen),
      cell: (row) => <span title={at(row.last_seen)}>{ago(row.last_seen, Date.now())}</span>,
    },
  ];
}

/** A subject is whatever a client sent: it is text, in its own direction, cut only for the eye. */
function SubjectName({ subject }: { subject: string }) {
  return (
    <bdi className={classes.subject} title={subject}>
      {subject}
    </bdi>
  );
}

function FilterTag({ what, name, onClick }: { what: string; name: string; onClick: () => void }) {
  return (
    <UnstyledButton
      className={classes.tag}
      aria-label={`Only ${what} ${name}`}
      title={`Only ${what} ${name}`}
      onClick={onClick}
    >
      <Tag>{name}</Tag>
    </UnstyledButton>
  );
}

function Denied({ row }: { row: TopSubject }) {
  if (!row.error) return <strong>{count(row.denied)}</strong>;
  return <strong title={`Estimated: at most ${count(row.error)} too high`}>≤ {count(row.denied)}</strong>;
}

function ShareBar({ part }: { part: number }) {
  return (
    <span className={classes.share}>
      <span className={classes.bar} aria-hidden="true">
        <span style={{ width: `${Math.min(1, Math.max(0, part)) * 100}%` }} />
      </span>
      {share(part)}
    </span>
  );
}

function Denials({ domain, window, subject }: { domain: string; window: Window; subject: string }) {
  const denials = useDenials(domain, subject, window);
  return (
    <Loaded query={denials} rows={3}>
      {(items) =>
        items.length === 0 ? (
          <p className={classes.soft}>No single refusal of this subject was kept; only a sample is.</p>
        ) : (
          <ol className={classes.denials}>
            {items.map((denial, i) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: refusals have no identity, and two can be alike
              <li key={i}>
                <DenialLine denial={denial} />
              </li>
            ))}
          </ol>
        )
      }
    </Loaded>
  );
}

function DenialLine({ denial }: { denial: Denial }) {
  const retry = denial.retry_after_ms;
  return (
    <>
      <time dateTime={denial.time}>{at(denial.time)}</time>
      <bdi className={classes.request}>
        {denial.method} {denial.host}
        {denial.path}
      </bdi>
      <span>
        by <Tag>{denial.rule}</Tag>
      </span>
      {denial.client_ip && <span className={classes.soft}>from {denial.client_ip}</span>}
      {typeof retry === "number" && retry > 0 && (
        <span className={classes.soft}>retry after {millisWords(Math.ceil(retry / 1_000) * 1_000)}</span>
      )}
    </>
  );
}
