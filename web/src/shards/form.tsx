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
  memory_limit: string;
  username: string;
  password: string;
  sentinel_username: string;
  sentinel_password: string;
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
        description="redis://host:port, redis+sentinel://host,host/name or redis+cluster://host,host; rediss for TLS; or a socket's path"
        data-autofocus={before !== undefined || undefined}
        spellCheck={false}
        {...form.getInputProps("address")}
      />
      <TextInput label="Weight" placeholder="1" inputMode="numeric" {...form.getInputProps("weight")} />
      <TextInput
        label="Memory limit"
        placeholder="the server's own maxmemory"
        description="Bytes. Near it, no counters are created for subjects that clients can invent."
        inputMode="numeric"
        {...form.getInputProps("memory_limit")}
      />
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
      {form.values.address.includes("+sentinel://") && (
        <>
          <TextInput
            label="User of the sentinels"
            placeholder="default"
            autoComplete="off"
            spellCheck={false}
            {...form.getInputProps("sentinel_username")}
          />
          <PasswordInput
            label="Password of the sentinels"
            description={
              base?.has_sentinel_password
                ? "One is stored and never shown. Empty: it stays as it is; with another address it must be given anew."
                : "Stored for the agents, never shown again."
            }
            autoComplete="new-password"
            {...form.getInputProps("sentinel_password")}
          />
        </>
      )}
    </FormModal>
  );
}

function valuesOf(shard: Shard | undefined): Values {
  return {
    name: shard?.name ?? "",
    address: shard?.address ?? "",
    weight: shard?.weight === undefined ? "" : String(shard.weight),
    memory_limit: shard?.memory_limit === undefined ? "" : String(shard.memory_limit),
    username: shard?.username ?? "",
    password: "",
    sentinel_username: shard?.sentinel_username ?? "",
    sentinel_password: "",
  };
}

function shardOf(values: Values): Shard {
  const { name, address, weight, memory_limit, username, password, sentinel_username, sentinel_password } = values;
  return {
    name: name.trim(),
    address: address.trim(),
    ...(weight.trim() === "" ? {} : { weight: numberOf(weight) }),
    ...(memory_limit.trim() === "" ? {} : { memory_limit: numberOf(memory_limit) }),
    ...(username.trim() === "" ? {} : { username: username.trim() }),
    ...(password === "" ? {} : { password }),
    ...(sentinel_username.trim() === "" ? {} : { sentinel_username: sentinel_username.trim() }),
    ...(sentinel_password === "" ? {} : { sentinel_password }),
  };
}

/** What is no number goes as it is: the server says what is wrong with it. */
function numberOf(text: string): number {
  return (/^\d+$/.test(text.trim()) ? Number(text) : text) as number;
}
