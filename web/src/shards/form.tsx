import { PasswordInput, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useState } from "react";
import type { Shard } from "../api/model";
import { pointerParts } from "../api/pointer";
import { useSaveShard } from "../api/shards";
import { FormModal } from "../ui/form-modal";
import { sayStored } from "../ui/save";

interface Props {
  before?: Shard;
  reread: () => Promise<Shard[] | undefined>;
  onClose: () => void;
}

interface Values {
  name: string;
  address: string;
  weight: string;
  username: string;
  password: string;
}

export function ShardForm({ before, reread, onClose }: Props) {
  const [base, setBase] = useState(before);
  const form = useForm<Values>({ initialValues: valuesOf(before) });
  const save = useSaveShard();
  const fresh = async () => (await reread())?.find((shard) => shard.name === before?.name);
  const store = async (force: boolean) => {
    const over = force ? await fresh() : base;
    return save.mutateAsync({ shard: shardOf(form.values), ...(over ? { before: over } : {}) });
  };
  const reload = async () => {
    const theirs = await fresh();
    setBase(theirs);
    form.setValues(valuesOf(theirs));
  };
  return (
    <FormModal
      title={before ? `Shard ${before.name}` : "New shard"}
      button={before ? "Save shard" : "Create shard"}
      form={form}
      store={store}
      onStored={() => {
        sayStored(`Shard ${form.values.name} ${before ? "saved" : "created"}`, "", undefined);
        onClose();
      }}
      onClose={onClose}
      onReload={() => void reload()}
      fieldOf={(pointer) => {
        const [field = ""] = pointerParts(pointer);
        return field in form.values ? field : undefined;
      }}
      taken={before ? undefined : "A shard of this name exists already."}
    >
      <TextInput
        label="Name"
        required={!before}
        readOnly={before !== undefined}
        data-autofocus={before === undefined || undefined}
        spellCheck={false}
        {...form.getInputProps("name")}
      />
      <TextInput
        label="Address"
        required
        placeholder="redis://127.0.0.1:6379"
        data-autofocus={before !== undefined || undefined}
        spellCheck={false}
        {...form.getInputProps("address")}
      />
      <TextInput label="Weight" placeholder="1" inputMode="numeric" {...form.getInputProps("weight")} />
      <TextInput
        label="User"
        placeholder="default"
        autoComplete="off"
        spellCheck={false}
        {...form.getInputProps("username")}
      />
      <PasswordInput
        label="Password"
        description={
          base?.has_password
            ? "One is stored and never shown. Empty: it stays as it is; with another address it must be given anew."
            : "Stored for the agents, never shown again."
        }
        autoComplete="new-password"
        {...form.getInputProps("password")}
      />
    </FormModal>
  );
}

function valuesOf(shard: Shard | undefined): Values {
  return {
    name: shard?.name ?? "",
    address: shard?.address ?? "",
    weight: shard?.weight === undefined ? "" : String(shard.weight),
    username: shard?.username ?? "",
    password: "",
  };
}

function shardOf({ name, address, weight, username, password }: Values): Shard {
  return {
    name: name.trim(),
    address: address.trim(),
    // What is no number goes as it is: the server says what is wrong with it.
    ...(weight.trim() === "" ? {} : { weight: (/^\d+$/.test(weight.trim()) ? Number(weight) : weight) as number }),
    ...(username.trim() === "" ? {} : { username: username.trim() }),
    ...(password === "" ? {} : { password }),
  };
}
