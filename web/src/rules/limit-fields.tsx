import { Checkbox, Input, Select, TextInput } from "@mantine/core";
import type { Tier } from "../api/model";
import { count } from "../format/number";
import { spanMillis, spanWords } from "../format/span";
import rows from "../ui/field-row.module.css";
import { Panel } from "../ui/page";
import type { RuleFields } from "./basic-fields";
import type { LimitRow } from "./form";
import { Add, Remove } from "./match-fields";
import { ALGORITHM_HELP, ALGORITHM_WORDS } from "./words";

const ALGORITHMS = [
  { value: "", label: "The domain’s default" },
  ...Object.entries(ALGORITHM_WORDS).map(([value, label]) => ({ value, label })),
];

/** How much may pass, for each tier. */
export function LimitFields({ form, tiers }: RuleFields & { tiers: readonly Tier[] }) {
  const { algorithm, limits } = form.values;
  const used = new Set(limits.map((row) => row.tier));
  const next = ["*", ...tiers.map((tier) => tier.name)].find((name) => !used.has(name));
  const window = limits.at(-1)?.window || "60s";
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
              form.insertListItem("limits", { tier: next, unlimited: false, limit: "", window, burst: "" })
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
  const buckets = form.values.algorithm === "" || form.values.algorithm === "token_bucket";
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
      <TextInput
        label="Window"
        placeholder="60s"
        disabled={row.unlimited}
        spellCheck={false}
        {...field("window")}
        description={row.unlimited ? undefined : windowHint(row.window)}
        inputWrapperOrder={["label", "input", "description", "error"]}
      />
      <TextInput
        label="Burst"
        placeholder={row.limit.trim() === "" ? "= limit" : countOr(row.limit)}
        inputMode="numeric"
        disabled={row.unlimited || !buckets}
        {...field("burst")}
      />
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

function windowHint(window: string): string | undefined {
  if (window.trim() === "") return undefined;
  return spanMillis(window.trim()) === undefined ? "Such as 60s, 5m, 1h, 30d" : spanWords(window.trim());
}

function countOr(text: string): string {
  const n = Number(text);
  return Number.isFinite(n) ? count(n) : text;
}
