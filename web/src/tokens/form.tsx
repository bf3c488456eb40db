import { Button, Group, Modal, MultiSelect, Select, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { type FormEvent, useState } from "react";
import type { NewToken, Role, Token } from "../api/model";
import { placeMistakes, pointerParts } from "../api/pointer";
import { asApiError } from "../api/problem";
import { useCreateToken } from "../api/tokens";
import { useDomains } from "../app/domain";
import { Command } from "../ui/copy";
import { Notice } from "../ui/notice";
import { Refusal } from "../ui/save";

interface Values {
  name: string;
  kind: "api" | "agent";
  role: Role;
  domains: string[];
  days: string;
}

const KINDS = [
  { value: "api", label: "The API and this dashboard" },
  { value: "agent", label: "An agent" },
];
const ROLES = [
  { value: "viewer", label: "Viewer: reads" },
  { value: "operator", label: "Operator: also writes rules, tiers, alerts" },
  { value: "admin", label: "Admin: also shards, tokens, agents" },
];
const LIVES = [
  { value: "", label: "Never" },
  { value: "1", label: "In a day" },
  { value: "30", label: "In 30 days" },
  { value: "90", label: "In 90 days" },
  { value: "365", label: "In a year" },
];

const DAY_MILLIS = 86_400_000;

/** Makes a token, then shows its secret: the only time that it can be read. */
export function TokenForm({ onClose }: { onClose: () => void }) {
  const [made, setMade] = useState<Token>();
  return (
    <Modal
      opened
      onClose={onClose}
      title={made ? "Copy the secret now" : "New token"}
      size="lg"
      closeOnClickOutside={made === undefined}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      {made ? <Secret token={made} onClose={onClose} /> : <Fields onMade={setMade} onClose={onClose} />}
    </Modal>
  );
}

function Secret({ token, onClose }: { token: Token; onClose: () => void }) {
  return (
    <Stack>
      <Notice tone="warn">
        This is the only time that the secret of <bdi>{token.name}</bdi> is shown.
      </Notice>
      <Command text={token.secret ?? ""} />
      <Group justify="flex-end">
        <Button onClick={onClose}>I have it</Button>
      </Group>
    </Stack>
  );
}

function Fields({ onMade, onClose }: { onMade: (token: Token) => void; onClose: () => void }) {
  const create = useCreateToken();
  const { data: domains } = useDomains();
  const form = useForm<Values>({ initialValues: { name: "", kind: "api", role: "viewer", domains: [], days: "90" } });
  const placed = placeMistakes(asApiError(create.error ?? "").mistakes, fieldOf);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    try {
      onMade(await create.mutateAsync(tokenOf(form.values, Date.now())));
    } catch (error) {
      form.setErrors(placeMistakes(asApiError(error).mistakes, fieldOf).fields);
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)} noValidate>
      <Stack>
        <TextInput
          label="Name"
          description="Who or what uses it; it is the author in the audit."
          data-autofocus
          required
          {...form.getInputProps("name")}
        />
        <Select label="For" data={KINDS} {...form.getInputProps("kind")} />
        {form.values.kind === "api" && <Select label="Role" data={ROLES} {...form.getInputProps("role")} />}
        <MultiSelect
          label="Domains"
          placeholder={form.values.domains.length === 0 ? "all" : ""}
          data={domains?.map((domain) => domain.name) ?? []}
          {...form.getInputProps("domains")}
        />
        <Select label="Expires" data={LIVES} {...form.getInputProps("days")} />
        <Refusal error={create.error} mistakes={placed.others} marked={Object.keys(placed.fields).length} />
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={create.isPending}>
            Create token
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function fieldOf(pointer: string): string | undefined {
  const [field = ""] = pointerParts(pointer);
  if (field === "expires_at") return "days";
  return ["name", "kind", "role", "domains"].includes(field) ? field : undefined;
}

function tokenOf({ name, kind, role, domains, days }: Values, now: number): NewToken {
  return {
    name: name.trim(),
    kind,
    ...(kind === "api" ? { role } : {}),
    ...(domains.length > 0 ? { domains } : {}),
    ...(days === "" ? {} : { expires_at: new Date(now + Number(days) * DAY_MILLIS).toISOString() }),
  };
}
