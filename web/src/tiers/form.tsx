import { Checkbox, Textarea, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useState } from "react";
import type { Tier } from "../api/model";
import { pointerParts } from "../api/pointer";
import { useSaveTier } from "../api/tiers";
import { FormModal } from "../ui/form-modal";
import { sayStored } from "../ui/save";

interface Props {
  domain: string;
  before?: Tier;
  reread: () => Promise<Tier[] | undefined>;
  onClose: () => void;
}

const FIELDS = new Set(["name", "description", "default"]);

export function TierForm({ domain, before, reread, onClose }: Props) {
  const [base, setBase] = useState(before);
  const form = useForm({ initialValues: valuesOf(before) });
  const save = useSaveTier(domain);
  const fresh = async () => (await reread())?.find((tier) => tier.name === before?.name);
  const store = async (force: boolean) => {
    const { name, description, isDefault } = form.values;
    const tier: Tier = {
      name: name.trim(),
      ...(description.trim() ? { description: description.trim() } : {}),
      ...(isDefault ? { default: true } : {}),
    };
    const over = force ? await fresh() : base;
    return save.mutateAsync({ tier, ...(over ? { before: over } : {}) });
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
      fieldOf={(pointer) => {
        const [field = ""] = pointerParts(pointer);
        return FIELDS.has(field) ? (field === "default" ? "isDefault" : field) : undefined;
      }}
      taken={before ? undefined : "A tier of this name exists already."}
    >
      <TextInput
        label="Name"
        description={before ? "A tier keeps its name: gateways send it." : "As gateways send it."}
        readOnly={before !== undefined}
        required={before === undefined}
        autoComplete="off"
        spellCheck={false}
        data-autofocus
        {...form.getInputProps("name")}
      />
      <Textarea label="Description" autosize minRows={2} {...form.getInputProps("description")} />
      <Checkbox
        label="Default tier"
        description="For subjects of no or of an unknown tier. A domain has exactly one."
        {...form.getInputProps("isDefault", { type: "checkbox" })}
      />
    </FormModal>
  );
}

function valuesOf(tier: Tier | undefined) {
  return { name: tier?.name ?? "", description: tier?.description ?? "", isDefault: tier?.default ?? false };
}
