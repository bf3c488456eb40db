import { ActionIcon, Button, Input, Select, TagsInput, TextInput } from "@mantine/core";
import rows from "../ui/field-row.module.css";
import { Icon } from "../ui/icon";
import { Panel } from "../ui/page";
import type { RuleFields } from "./basic-fields";

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
const KEY_PARTS = ["subject", "ip", "route", "method", "tier"];
const HEADER_KINDS = [
  { value: "present", label: "is present" },
  { value: "exact", label: "is exactly" },
  { value: "prefix", label: "starts with" },
  { value: "regex", label: "matches regex" },
];

/** Which requests the rule is about. */
export function MatchFields({ form }: RuleFields) {
  const setMethods = (methods: string[]) =>
    form.setFieldValue("methods", [...new Set(methods.map((m) => m.toUpperCase()))]);
  return (
    <Panel
      title="Which requests"
      aside={<Input.Description>All that is given must hold; what is empty always does.</Input.Description>}
    >
      <div className={rows.list}>
        <TextInput
          label="Path"
          description="A template: {id} or * is one segment, ** is the rest."
          placeholder="/api/users/{id}/**"
          autoComplete="off"
          spellCheck={false}
          {...form.getInputProps("path")}
        />
        <div className={`${rows.row} ${rows.two}`}>
          <TagsInput
            label="Methods"
            placeholder={form.values.methods.length === 0 ? "any" : ""}
            data={METHODS}
            {...form.getInputProps("methods")}
            onChange={setMethods}
            acceptValueOnBlur
          />
          <TagsInput
            label="Hosts"
            placeholder={form.values.hosts.length === 0 ? "any, such as api.example.com or *.example.com" : ""}
            {...form.getInputProps("hosts")}
            acceptValueOnBlur
          />
        </div>
        <Headers form={form} />
        <Descriptors form={form} />
      </div>
    </Panel>
  );
}

function Headers({ form }: RuleFields) {
  return (
    <Input.Wrapper label="Headers" labelElement="div" error={form.errors.headers}>
      <div className={`${rows.list} ${rows.nested}`}>
        {form.values.headers.map((header, row) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: rows have no identity but their place
          <div key={row} className={`${rows.row} ${rows.header}`}>
            <TextInput
              label="Name"
              placeholder="x-plan"
              spellCheck={false}
              {...form.getInputProps(`headers.${row}.name`)}
            />
            <Select label="Test" data={HEADER_KINDS} {...form.getInputProps(`headers.${row}.kind`)} />
            <TextInput
              label="Value"
              disabled={header.kind === "present"}
              spellCheck={false}
              {...form.getInputProps(`headers.${row}.value`)}
            />
            <Remove what={`header ${header.name || row + 1}`} onClick={() => form.removeListItem("headers", row)} />
          </div>
        ))}
        <Add
          label="Add a header"
          onClick={() => form.insertListItem("headers", { name: "", kind: "exact", value: "" })}
        />
      </div>
    </Input.Wrapper>
  );
}

function Descriptors({ form }: RuleFields) {
  return (
    <Input.Wrapper
      label="Descriptors"
      labelElement="div"
      description="What a gateway says about a request beside HTTP. A * in a value stands for any run of characters."
      error={form.errors.descriptors}
    >
      <div className={`${rows.list} ${rows.nested}`}>
        {form.values.descriptors.map((descriptor, row) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: rows have no identity but their place
          <div key={row} className={`${rows.row} ${rows.descriptor}`}>
            <TextInput label="Key" spellCheck={false} {...form.getInputProps(`descriptors.${row}.key`)} />
            <TextInput
              label="Value"
              placeholder="any"
              spellCheck={false}
              {...form.getInputProps(`descriptors.${row}.value`)}
            />
            <Remove
              what={`descriptor ${descriptor.key || row + 1}`}
              onClick={() => form.removeListItem("descriptors", row)}
            />
          </div>
        ))}
        <Add label="Add a descriptor" onClick={() => form.insertListItem("descriptors", { key: "", value: "" })} />
      </div>
    </Input.Wrapper>
  );
}

/** What the rule counts by. */
export function KeyFields({ form }: RuleFields) {
  return (
    <Panel title="Counted by">
      <TagsInput
        label="Key"
        description="What is counted apart, in order. Also header:NAME, param:NAME and descriptor:NAME. Empty: one counter for all requests."
        placeholder={form.values.key.length === 0 ? "one counter for all" : ""}
        data={KEY_PARTS}
        acceptValueOnBlur
        {...form.getInputProps("key")}
      />
    </Panel>
  );
}

export function Add({ label, onClick }: { label: string; onClick: () => void }) {
  return (
    <div>
      <Button variant="subtle" size="compact-sm" leftSection={<Icon name="plus" size={16} />} onClick={onClick}>
        {label}
      </Button>
    </div>
  );
}

export function Remove({ what, onClick }: { what: string; onClick: () => void }) {
  return (
    <ActionIcon
      className={rows.remove}
      variant="subtle"
      color="gray"
      size={34}
      aria-label={`Remove ${what}`}
      onClick={onClick}
    >
      <Icon name="trash" />
    </ActionIcon>
  );
}
