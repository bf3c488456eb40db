/** What the overview is about: time range, filters, breakdown. All of it lives in the address. */
import {
  ActionIcon,
  Button,
  Group,
  Popover,
  SegmentedControl,
  Select,
  Stack,
  Text,
  TextInput,
  Tooltip,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { type FormEvent, useState } from "react";
import type { Grouping } from "../api/analytics";
import { useRules } from "../api/rules";
import { useTiers } from "../api/tiers";
import { zone } from "../format/time";
import { Icon } from "../ui/icon";
import classes from "./controls.module.css";
import { PRESET_WORDS, PRESETS, type Preset, type Range, rangeProblem } from "./range";

interface RangeProps {
  range: Range;
  onRange: (range: Range) => void;
}

export function RangeControl({ range, onRange }: RangeProps) {
  const preset = "preset" in range ? range.preset : "";
  return (
    <div className={classes.range}>
      <SegmentedControl
        size="xs"
        aria-label="Time range"
        value={preset}
        onChange={(value) => onRange({ preset: value as Preset })}
        data={PRESETS.map((value) => ({ value, label: PRESET_WORDS[value] }))}
      />
      <CustomRange range={range} onRange={onRange} />
    </div>
  );
}

function CustomRange({ range, onRange }: RangeProps) {
  const [open, popover] = useDisclosure(false);
  const custom = !("preset" in range);
  return (
    <Popover opened={open} onChange={popover.toggle} trapFocus position="bottom-end" shadow="md" withinPortal>
      <Popover.Target>
        <Button
          size="xs"
          variant={custom ? "light" : "default"}
          leftSection={<Icon name="calendar" size={14} />}
          onClick={popover.toggle}
        >
          {custom ? `${local(range.from).replace("T", " ")} – ${local(range.to).replace("T", " ")}` : "Custom"}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <CustomRangeForm
          range={range}
          onRange={(chosen) => {
            popover.close();
            onRange(chosen);
          }}
        />
      </Popover.Dropdown>
    </Popover>
  );
}

function CustomRangeForm({ range, onRange }: RangeProps) {
  const now = Math.floor(Date.now() / 1_000);
  const [from, setFrom] = useState(local("preset" in range ? now - 3_600 : range.from));
  const [to, setTo] = useState(local("preset" in range ? now : range.to));
  const [problem, setProblem] = useState<string>();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const ends = { from: Date.parse(from) / 1_000, to: Date.parse(to) / 1_000 };
    const wrong = Number.isFinite(ends.from + ends.to)
      ? rangeProblem(ends.from, ends.to)
      : "Give both a start and an end.";
    setProblem(wrong);
    if (wrong === undefined) onRange(ends);
  };
  return (
    <form onSubmit={submit}>
      <Stack gap="sm">
        <TextInput
          type="datetime-local"
          label="From"
          value={from}
          onChange={(event) => setFrom(event.currentTarget.value)}
          data-autofocus
        />
        <TextInput
          type="datetime-local"
          label="To"
          value={to}
          error={problem}
          onChange={(event) => setTo(event.currentTarget.value)}
        />
        <Text size="xs" c="dimmed">
          Times in {zone()}
        </Text>
        <Button type="submit" size="xs">
          Show
        </Button>
      </Stack>
    </form>
  );
}

interface FilterProps {
  domain: string;
  rule: string | undefined;
  tier: string | undefined;
  by: Grouping;
  onChange: (change: { rule?: string | undefined; tier?: string | undefined; by?: string | undefined }) => void;
}

export function FilterControl({ domain, rule, tier, by, onChange }: FilterProps) {
  const { data: rules } = useRules(domain);
  const { data: tiers } = useTiers(domain);
  return (
    <Group gap="xs">
      <NameSelect
        label="Rule"
        all="All rules"
        names={rules?.map((r) => r.name)}
        value={rule}
        onChange={(name) => onChange({ rule: name })}
      />
      <NameSelect
        label="Tier"
        all="All tiers"
        names={tiers?.map((t) => t.name)}
        value={tier}
        onChange={(name) => onChange({ tier: name })}
      />
      <SegmentedControl
        size="xs"
        aria-label="Break down by"
        value={by}
        onChange={(value) => onChange({ by: value === "outcome" ? undefined : value })}
        data={[
          { value: "outcome", label: "Outcomes" },
          { value: "rule", label: "Denied by rule" },
          { value: "tier", label: "by tier" },
        ]}
      />
    </Group>
  );
}

interface NameSelectProps {
  label: string;
  all: string;
  names: string[] | undefined;
  value: string | undefined;
  onChange: (name: string | undefined) => void;
}

function NameSelect({ label, all, names = [], value, onChange }: NameSelectProps) {
  // A rule that is deleted by now can still be asked for: its history is there.
  const known = value === undefined || names.includes(value) ? names : [value, ...names];
  return (
    <Select
      size="xs"
      w={150}
      aria-label={label}
      placeholder={all}
      data={known}
      value={value ?? null}
      onChange={(name) => onChange(name ?? undefined)}
      clearable
      clearButtonProps={{ "aria-label": `All ${label.toLowerCase()}s` }}
      searchable
      nothingFoundMessage="None of that name"
    />
  );
}

/** Stops and starts the refresh. */
export function LiveSwitch({ live, onChange }: { live: boolean; onChange: (live: boolean) => void }) {
  const label = live ? "Pause the refresh" : "Refresh every 2 seconds";
  return (
    <Tooltip label={label}>
      <ActionIcon variant="default" size={30} aria-label={label} onClick={() => onChange(!live)}>
        <Icon name={live ? "pause" : "play"} size={14} />
      </ActionIcon>
    </Tooltip>
  );
}

/** `2026-11-30T17:26` in the browser's zone, as date fields want it. */
function local(unixSeconds: number): string {
  const date = new Date(unixSeconds * 1_000);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
