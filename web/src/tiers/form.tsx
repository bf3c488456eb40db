import { Checkbox, Input, Textarea, TextInput } from "@mantine/core";
import { type UseFormReturnType, useForm } from "@mantine/form";
import { useState } from "react";
import type { Rule, Tier } from "../api/model";
import { useSaveTier } from "../api/tiers";
import rows from "../ui/field-row.module.css";
import { FormModal } from "../ui/form-modal";
import { sayStored } from "../ui/save";
import { fieldOf, type OwnLimit, ownLimits } from "./own-limits";

interface Props {
  domain: string;
  tiers: readonly Tier[];
  rules: readonly Rule[];
  before?: Tier;
  reread: () => Promise<Tier[] | undefined>;
  onClose: () => void;
}

interface Values {
  name: string;
  description: string;
  isDefault: boolean;
  own: OwnLimit[];
}

export function TierForm({ domain, tiers, rules, before, reread, onClose }: Props) {
  const [base, setBase] = useState(before);
  const form = useForm({ initialValues: { ...valuesOf(before), own: before ? [] : ownLimits(rules, tiers) } });
  const save = useSaveTier(domain);
  const fresh = async () => (await reread())?.find((tier) => tier.name === before?.name);
  const store = async (force: boolean) => {
    const { name, description, isDefault, own } = form.values;
    const tier: Tier = {
      name: name.trim(),
      ...(description.trim() ? { description: description.trim() } : {}),
      ...(isDefault ? { default: true } : {}),
    };
    const over = force ? await fresh() : base;
    return save.mutateAsync({ tier, own, ...(over ? { before: over } : {}) });
  };
  const reload = async () => {
    const theirs = await fresh();
    setBase(theirs);
    form.setValues(valuesOf(theirs));
  };
  return (
    <FormModal
      title={before ? `Tier ${before.name}` : "New tier"}
      button={before ? "Save tier" : "Create tier"}
      form={form}
      store={store}
      onStored={(revision) => {
        sayStored(`Tier ${form.values.name} ${before ? "saved" : "created"}`, domain, revision);
        onClose();
      }}
      onClose={onClose}
      onReload={() => void reload()}
      fieldOf={fieldOf}
      taken={before ? undefined : "A tier of this name exists already."}
    >
      <TextInput
        label="Name"
        description={before ? "A tier keeps its name: gateways send it." : "As gateways send it."}
        readOnly={before !== undefined}
        required={before === undefined}
        autoComplete="off"
        spellCheck={false}
        data-autofocus={before === undefined || undefined}
        {...form.getInputProps("name")}
      />
      <Textarea
        label="Description"
        autosize
        minRows={2}
        data-autofocus={before !== undefined || undefined}
        {...form.getInputProps("description")}
      />
      <Checkbox
        label="Default tier"
        description="For subjects of no or of an unknown tier. A domain has exactly one."
        {...form.getInputProps("isDefault", { type: "checkbox" })}
      />
      <OwnLimits form={form} />
    </FormModal>
  );
}

/** Rules that name each of their tiers need a limit for a new one. */
function OwnLimits({ form }: { form: UseFormReturnType<Values> }) {
  const { own } = form.values;
  if (own.length === 0) return null;
  return (
    <Input.Wrapper
      label="Its limits"
      labelElement="div"
      description="These rules have no limit for “all others”, so the new tier needs its own there."
    >
      <div className={`${rows.list} ${rows.nested}`}>
        {own.map(({ rule, unlimited, calendar, timeZone }, index) => (
          <div key={rule} className={`${rows.row} ${rows.own}`}>
            <TextInput
              label={`Limit in ${rule}`}
              inputMode="numeric"
              disabled={unlimited}
              {...form.getInputProps(`own.${index}.limit`)}
            />
            {calendar === "" ? (
              <TextInput
                label="Window"
                placeholder="60s"
                disabled={unlimited}
                spellCheck={false}
                {...form.getInputProps(`own.${index}.window`)}
              />
            ) : (
              <TextInput label="Window" readOnly value={`Calendar ${calendar}, ${timeZone || "UTC"}`} />
            )}
            <Checkbox
              className={rows.toggle}
              label="No limit"
              {...form.getInputProps(`own.${index}.unlimited`, { type: "checkbox" })}
            />
            {form.errors[`own.${index}`] && (
              <Input.Error className={rows.whole ?? ""}>{form.errors[`own.${index}`]}</Input.Error>
            )}
          </div>
        ))}
      </div>
    </Input.Wrapper>
  );
}

function valuesOf(tier: Tier | undefined) {
  return { name: tier?.name ?? "", description: tier?.description ?? "", isDefault: tier?.default ?? false };
}
