/**
 * A rule as its form holds it, and the way there and back. Numbers stay text while they are edited: what is not a number reaches the
 * server as it was typed, so that the server, which knows the bounds, says at the field what is wrong with it.
 */
import type {
  Algorithm,
  CalendarUnit,
  DescriptorMatch,
  FailureMode,
  HeaderMatch,
  Limit,
  Match,
  Rule,
  RuleMode,
} from "../api/model";

export type HeaderKind = "present" | "exact" | "prefix" | "regex";

export interface HeaderRow {
  name: string;
  kind: HeaderKind;
  value: string;
}

export interface DescriptorRow {
  key: string;
  value: string;
}

export interface LimitRow {
  /** A tier's name, or `*` for all that are not named. */
  tier: string;
  unlimited: boolean;
  limit: string;
  window: string;
  /** The calendar that its windows follow, instead of `window`; empty: none. */
  calendar: CalendarUnit | "";
  timeZone: string;
  burst: string;
}

/** A limit that is to be filled in. */
export const NEW_LIMIT: LimitRow = {
  tier: "*",
  unlimited: false,
  limit: "",
  window: "60s",
  calendar: "",
  timeZone: "",
  burst: "",
};

export interface RuleForm {
  name: string;
  description: string;
  mode: RuleMode;
  enforcePercent: string;
  methods: string[];
  hosts: string[];
  path: string;
  headers: HeaderRow[];
  descriptors: DescriptorRow[];
  key: string[];
  /** Empty: the domain's default. */
  algorithm: Algorithm | "";
  limits: LimitRow[];
  /** Empty: the domain's default. */
  failureMode: FailureMode | "";
  generosity: string;
  escalateAfter: string;
  escalateTo: FailureMode | "";
  group: string;
  priority: string;
  costHeader: string;
  /** What a newer server wrote and this form does not know; it is sent back as it came. */
  rest: Record<string, unknown>;
}

export const NEW_RULE: RuleForm = {
  name: "",
  description: "",
  mode: "enforce",
  enforcePercent: "",
  methods: [],
  hosts: [],
  path: "",
  headers: [],
  descriptors: [],
  key: ["subject"],
  algorithm: "",
  limits: [NEW_LIMIT],
  failureMode: "",
  generosity: "",
  escalateAfter: "",
  escalateTo: "",
  group: "",
  priority: "",
  costHeader: "",
  rest: {},
};

export function formOf(rule: Rule): RuleForm {
  const { name, description, group, priority, key, algorithm, limits, mode, enforce_percent, cost_header, ...others } =
    rule;
  const { match, on_failure, meta: _, ...rest } = others;
  return {
    name,
    description: description ?? "",
    mode: mode ?? "enforce",
    enforcePercent: text(enforce_percent),
    methods: match?.methods ?? [],
    hosts: match?.hosts ?? [],
    path: match?.path ?? "",
    headers: (match?.headers ?? []).map(headerRow),
    descriptors: (match?.descriptors ?? []).map((d) => ({ key: d.key, value: d.value ?? "" })),
    key: [...(key ?? [])],
    algorithm: algorithm ?? "",
    limits: Object.entries(limits).map(([tier, limit]) => limitRow(tier, limit)),
    failureMode: on_failure?.mode ?? "",
    generosity: text(on_failure?.generosity),
    escalateAfter: on_failure?.escalate?.after ?? "",
    escalateTo: on_failure?.escalate?.to ?? "",
    group: group ?? "",
    priority: text(priority),
    costHeader: cost_header ?? "",
    rest,
  };
}

/** The document to send. Fields that are empty are left out, so that the domain's defaults apply. */
export function documentOf(form: RuleForm): Rule {
  const document = {
    ...form.rest,
    name: form.name.trim(),
    ...given("description", form.description.trim()),
    ...given("group", form.group.trim()),
    ...given("priority", number(form.priority)),
    match: matchOf(form),
    key: form.key,
    ...given("algorithm", form.algorithm),
    limits: Object.fromEntries(form.limits.map((row) => [row.tier, limitOf(row, form.algorithm)])),
    ...given("on_failure", failureOf(form)),
    mode: form.mode,
    ...given("enforce_percent", form.mode === "enforce" ? number(form.enforcePercent) : undefined),
    // A request in flight is one, whatever it costs.
    ...given("cost_header", form.algorithm === "concurrency" ? undefined : form.costHeader.trim()),
  };
  return document as Rule;
}

function matchOf(form: RuleForm): Match {
  const headers = form.headers.map((row) => ({
    name: row.name.trim(),
    [row.kind]: row.kind === "present" ? true : row.value,
  }));
  const descriptors = form.descriptors.map(
    (row) => ({ key: row.key.trim(), ...given("value", row.value) }) as DescriptorMatch,
  );
  return {
    ...given("methods", form.methods),
    ...given("hosts", form.hosts),
    ...given("path", form.path.trim()),
    ...given("headers", headers as HeaderMatch[]),
    ...given("descriptors", descriptors),
  };
}

/** Only fixed windows follow a calendar; of a domain's default nobody knows here. */
export function followsCalendar(row: LimitRow, algorithm: Algorithm | ""): boolean {
  return row.calendar !== "" && (algorithm === "" || algorithm === "fixed_window");
}

export function limitOf(row: LimitRow, algorithm: Algorithm | ""): Limit {
  if (row.unlimited) return { unlimited: true };
  // Only token buckets have a burst; what was typed before the algorithm changed is not sent.
  const burst = algorithm === "" || algorithm === "token_bucket" ? number(row.burst) : undefined;
  const window = followsCalendar(row, algorithm)
    ? { calendar: row.calendar, ...given("time_zone", row.timeZone.trim()) }
    : { window: row.window.trim() };
  return { ...given("limit", number(row.limit)), ...window, ...given("burst", burst) } as Limit;
}

function failureOf(form: RuleForm) {
  if (form.failureMode === "") return undefined;
  const escalates = form.escalateAfter.trim() !== "" || form.escalateTo !== "";
  const escalate = { ...given("after", form.escalateAfter.trim()), ...given("to", form.escalateTo) };
  return {
    mode: form.failureMode,
    ...given("generosity", form.failureMode === "local" ? number(form.generosity) : undefined),
    ...(escalates ? { escalate } : {}),
  };
}

function headerRow(header: HeaderMatch): HeaderRow {
  for (const kind of ["exact", "prefix", "regex"] as const) {
    const value = header[kind];
    if (typeof value === "string") return { name: header.name, kind, value };
  }
  return { name: header.name, kind: "present", value: "" };
}

export function limitRow(tier: string, limit: Limit): LimitRow {
  return {
    tier,
    unlimited: limit.unlimited === true,
    limit: text(limit.limit),
    window: limit.window ?? "",
    calendar: limit.calendar ?? "",
    timeZone: limit.time_zone ?? "",
    burst: text(limit.burst),
  };
}

/** A number if the text is one (thousands separators allowed), nothing if it is empty, else the text itself for the server to refuse. */
function number(input: string): number | string | undefined {
  const plain = input.trim().replace(/(?<=\d)[,_ ](?=\d{3}\b)/g, "");
  if (plain === "") return undefined;
  return /^-?\d+(\.\d+)?$/.test(plain) ? Number(plain) : input;
}

function text(value: number | null | undefined): string {
  return value === undefined || value === null ? "" : String(value);
}

/** `{name: value}`, or nothing if there is no value. */
function given<V>(name: string, value: V | undefined): Record<string, V> {
  const none = value === undefined || value === "" || (Array.isArray(value) && value.length === 0);
  return none ? {} : { [name]: value as V };
}
