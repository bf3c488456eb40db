/** A small document edited in a dialog: the fields are the caller's, storing and refusals are the same for all. */
import { Button, Group, Modal, Stack } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { type FormEvent, type ReactNode, useState } from "react";
import type { Written } from "../api/client";
import type { Mistake } from "../api/model";
import { placeMistakes } from "../api/pointer";
import { asApiError } from "../api/problem";
import { Refusal } from "./save";

interface Props<V> {
  title: string;
  button: string;
  form: UseFormReturnType<V>;
  /** Stores the document that the form holds; `force`: whatever is there now. */
  store: (force: boolean) => Promise<Written<unknown>>;
  onStored: (revision: number | undefined) => void;
  onClose: () => void;
  /** Reads anew what is edited and fills the form with it. */
  onReload?: () => void;
  /** The field that shows a mistake of that part of the document. */
  fieldOf: (pointer: string) => string | undefined;
  /** What to say at the name field if the name is taken. */
  taken?: string | undefined;
  children: ReactNode;
}

export function FormModal<V extends object>(props: Props<V>) {
  const { title, button, form, store, onStored, onClose, onReload, fieldOf, taken, children } = props;
  const [pending, setPending] = useState(false);
  const [refusal, setRefusal] = useState<{ error: unknown; others: Mistake[]; marked: number }>();

  const refuse = (error: unknown) => {
    const problem = asApiError(error);
    const { fields, others } = placeMistakes(problem.mistakes, fieldOf);
    const placed: Record<string, string> = { ...fields };
    if (problem.status === 409 && taken !== undefined) placed.name = taken;
    form.setErrors(placed);
    setRefusal({ error, others, marked: Object.keys(placed).length });
  };
  const go = async (force: boolean) => {
    form.clearErrors();
    setRefusal(undefined);
    setPending(true);
    try {
      onStored((await store(force)).revision);
    } catch (error) {
      refuse(error);
    } finally {
      setPending(false);
    }
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void go(false);
  };
  const reload = () => {
    setRefusal(undefined);
    onReload?.();
  };

  return (
    <Modal opened onClose={onClose} title={title} size="lg" closeButtonProps={{ "aria-label": "Close" }}>
      <form onSubmit={submit} noValidate>
        <Stack gap="md">
          {children}
          {refusal && (
            <Refusal
              error={refusal.error}
              mistakes={refusal.others}
              marked={refusal.marked}
              onOverwrite={() => void go(true)}
              {...(onReload ? { onReload: reload } : {})}
            />
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={pending}>
              {button}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
