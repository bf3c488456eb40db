import { Autocomplete, Checkbox, Input, Select, TextInput } from "@mantine/core";
import type { Algorithm, Tier } from "../api/model";
import { count } from "../format/number";
import { spanMillis, spanWords } from "../format/span";
import rows from "../ui/field-row.module.css";
import { Panel } from "../ui/page";
import type { RuleFields } from "./basic-fields";
import { followsCalendar, type LimitRow, NEW_LIMIT } from "./form";
import { Add, Remove } from "./match-fields";
import { ALGORITHM_HELP, ALGORITHM_WORDS, CALENDAR_WORDS } from "./words";

const ALGORITHMS = [
  { value: "", label: "The domain’s default" },
  ...Object.entries(ALGORITHM_WORDS).map(([value, label]) => ({ value, label })),
];

const WINDOWS = [
  { value: "", label: "Fixed length" },
  ...Object.entries(CALENDAR_WORDS).map(([value, label]) => ({ value, label })),
];

/** The zones that the browser knows. The server knows more, and any can be typed. */
const ZONES = [...new Set(["UTC", ...Intl.supportedValuesOf("timeZone")])];

/** How much may pass, for each tier. */
export function LimitFields({ form, tiers }: RuleFields & { tiers: readonly Tier[] }) {
  const { algorithm, limits } = form.values;
  const used = new Set(limits.map((row) => row.tier));
  const next = ["*", ...tiers.map((tier) => tier.name)].find((name) => !used.has(name));
  const { window, calendar, timeZone } = limits.at(-1) ?? NEW_LIMIT;
  return (
    <Panel title="Limits">
      <div className={rows.list}>
        <Select
          label="Algorithm"
          description={algorithm === "" ? "How units are counted." : ALGORITHM_HELP[algorithm]}
          data={ALGORITHMS}
          {...form.getInputProps("algorithm")}
        />
        {limits.map((row, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: rows have no identity but their place
          <LimitFieldRow key={index} form={form} index={index} row={row} tiers={tiers} />
        ))}
        {form.errors.limits && <Input.Error>{form.errors.limits}</Input.Error>}
        {next !== undefined && (
          <Add
            label={next === "*" ? "Add a limit for all other tiers" : "Add a tier’s limit"}
            onClick={() =>
              form.insertListItem("limits", { ...NEW_LIMIT, tier: next, window: window || "60s", calendar, timeZone })
            }
          />
        )}
      </div>
    </Panel>
  );
}

interface RowProps extends RuleFields {
  index: number;
  row: LimitRow;
  tiers: readonly Tier[];
}

function LimitFieldRow({ form, index, row, tiers }: RowProps) {
  const field = (name: keyof LimitRow) => form.getInputProps(`limits.${index}.${name}`);
  const taken = new Set(form.values.limits.filter((_, i) => i !== index).map((other) => other.tier));
  const names = ["*", ...tiers.map((tier) => tier.name)];
  if (!names.includes(row.tier)) names.push(row.tier);
  const { algorithm } = form.values;
  return (
    <div className={`${rows.row} ${rows.limit}`}>
      <Select
        label="Tier"
        data={names.map((name) => ({
          value: name,
          label: name === "*" ? "* all others" : name,
          disabled: taken.has(name),
        }))}
        {...field("tier")}
      />
      <TextInput
        label="Limit"
        placeholder="100"
        inputMode="numeric"
        disabled={row.unlimited}
        {...field("limit")}
        description={row.limit === "0" && !row.unlimited ? "Blocks this tier." : undefined}
        inputWrapperOrder={["label", "input", "description", "error"]}
      />
      <WindowFields form={form} index={index} row={row} algorithm={algorithm} />
      <Checkbox
        className={rows.toggle}
        label="No limit"
        {...form.getInputProps(`limits.${index}.unlimited`, { type: "checkbox" })}
      />
      <Remove
        what={`the limit of ${row.tier === "*" ? "all other tiers" : row.tier}`}
        onClick={() => form.removeListItem("limits", index)}
      />
    </div>
  );
}

/** The two fields that say in which time: a length and a burst, a calendar and its zone, or how long a lease lasts. */
function WindowFields({ form, index, row, algorithm }: Omit<RowProps, "tiers"> & { algorithm: Algorithm | "" }) {
  const field = (name: keyof LimitRow) => form.getInputProps(`limits.${index}.${name}`);
  const calendar = followsCalendar(row, algorithm);
  const length = (
    <TextInput
      label={algorithm === "concurrency" ? "Lease" : algorithm === "fixed_window" ? "Length" : "Window"}
      placeholder="60s"
      disabled={row.unlimited}
      spellCheck={false}
      {...field("window")}
      description={row.unlimited ? undefined : windowHint(row.window)}
      inputWrapperOrder={["label", "input", "description", "error"]}
    />
  );
  if (algorithm === "fixed_window" || calendar) {
    return (
      <>
        <Select label="Window" data={WINDOWS} disabled={row.unlimited} {...field("calendar")} />
        {calendar ? (
          <Autocomplete
            label="Time zone"
            placeholder="UTC"
            data={ZONES}
            limit={20}
            disabled={row.unlimited}
            spellCheck={false}
            {...field("timeZone")}
          />
        ) : (
          length
        )}
      </>
    );
  }
  const buckets = algorithm === "" || algorithm === "token_bucket";
  return (
    <>
      {length}
      <TextInput
        label="Burst"
        placeholder={row.limit.trim() === "" ? "= limit" : countOr(row.limit)}
        inputMode="numeric"
        disabled={row.unlimited || !buckets}
        {...field("burst")}
      />
    </>
  );
}

function windowHint(window: string): string | undefined {
  if (window.trim() === "") return undefined;
  return spanMillis(window.trim()) === undefined ? "Such as 60s, 5m, 1h, 30d" : spanWords(window.trim());
}

function countOr(text: string): string {
  const n = Number(text);
  return Number.isFinite(n) ? count(n) : text;
}
