import { PasswordInput, Select, Switch, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useState } from "react";
import { useSaveAlert } from "../api/alerts";
import type { Alert } from "../api/model";
import { pointerParts } from "../api/pointer";
import { useRules } from "../api/rules";
import rows from "../ui/field-row.module.css";
import { FormModal } from "../ui/form-modal";
import { sayStored } from "../ui/save";

interface Props {
  domain: string;
  before?: Alert;
  reread: () => Promise<Alert[] | undefined>;
  onClose: () => void;
}

interface Values {
  name: string;
  rule: string | null;
  percent: string;
  for: string;
  url: string;
  secret: string;
  enabled: boolean;
}

export function AlertForm({ domain, before, reread, onClose }: Props) {
  const [base, setBase] = useState(before);
  const form = useForm<Values>({ initialValues: valuesOf(before) });
  const save = useSaveAlert(domain);
  const { data: rules = [] } = useRules(domain);
  const names = rules.map((rule) => rule.name);
  const fresh = async () => (await reread())?.find((alert) => alert.name === before?.name);
  const store = async (force: boolean) => {
    const over = force ? await fresh() : base;
    return save.mutateAsync({ alert: alertOf(form.values), ...(over ? { before: over } : {}) });
  };
  const reload = async () => {
    const theirs = await fresh();
    setBase(theirs);
    form.setValues(valuesOf(theirs));
  };
  return (
    <FormModal
      title={before ? `Alert ${before.name}` : "New alert"}
      button={before ? "Save alert" : "Create alert"}
      form={form}
      store={store}
      onStored={() => {
        sayStored(`Alert ${form.values.name} ${before ? "saved" : "created"}`, domain, undefined);
        onClose();
      }}
      onClose={onClose}
      onReload={() => void reload()}
      fieldOf={fieldOf}
      taken={before ? undefined : "An alert of this name exists already."}
    >
      <TextInput
        label="Name"
        required={!before}
        readOnly={before !== undefined}
        data-autofocus={before === undefined || undefined}
        spellCheck={false}
        {...form.getInputProps("name")}
      />
      <Select
        label="Rule"
        required
        searchable
        placeholder="Which rule to watch"
        nothingFoundMessage="No rule of that name"
        data={before && !names.includes(before.rule) ? [before.rule, ...names] : names}
        {...form.getInputProps("rule")}
      />
      <div className={`${rows.row} ${rows.two}`}>
        <TextInput
          label="Denied share above"
          rightSection="%"
          inputMode="decimal"
          data-autofocus={before !== undefined || undefined}
          {...form.getInputProps("percent")}
        />
        <TextInput label="For at least" placeholder="5m" spellCheck={false} {...form.getInputProps("for")} />
      </div>
      <TextInput
        label="Webhook"
        description="Its address must be on the control plane’s allow-list. Empty: only this page tells."
        placeholder="https://hooks.example.com/weir"
        spellCheck={false}
        {...form.getInputProps("url")}
      />
      <PasswordInput
        label="Webhook secret"
        description={
          base?.webhook
            ? "Signs the calls; never shown. Empty: it stays as it is. A new address needs a new one."
            : "Signs the calls: 16 to 256 characters, never shown again."
        }
        autoComplete="new-password"
        {...form.getInputProps("secret")}
      />
      <Switch label="Switched on" {...form.getInputProps("enabled", { type: "checkbox" })} />
    </FormModal>
  );
}

function fieldOf(pointer: string): string | undefined {
  const [field, part] = pointerParts(pointer);
  if (field === "denied_share_percent") return "percent";
  if (field === "webhook") return part === "secret" ? "secret" : "url";
  return field !== undefined && ["name", "rule", "for", "enabled"].includes(field) ? field : undefined;
}

function valuesOf(alert: Alert | undefined): Values {
  return {
    name: alert?.name ?? "",
    rule: alert?.rule ?? null,
    percent: alert === undefined ? "20" : String(alert.denied_share_percent),
    for: alert?.for ?? "5m",
    url: alert?.webhook?.url ?? "",
    secret: "",
    enabled: alert?.enabled ?? true,
  };
}

function alertOf({ name, rule, percent, for: span, url, secret, enabled }: Values): Alert {
  const number = /^\d+(\.\d+)?$/.test(percent.trim()) ? Number(percent) : percent;
  return {
    name: name.trim(),
    rule: rule ?? "",
    // What is no number goes as it is: the server says what is wrong with it.
    denied_share_percent: number as number,
    for: span.trim(),
    webhook: url.trim() === "" ? null : { url: url.trim(), ...(secret === "" ? {} : { secret }) },
    enabled,
  };
}
