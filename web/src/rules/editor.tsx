/** The form of a rule: edit, check against the server, store. */
import { Button } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useRef, useState } from "react";
import type { Mistake, Rule } from "../api/model";
import { placeMistakes } from "../api/pointer";
import { asApiError } from "../api/problem";
import { useCheckRule, useSaveRule } from "../api/rules";
import { useTiers } from "../api/tiers";
import { useMay } from "../session/session";
import { LeaveGuard } from "../ui/leave-guard";
import { Notice } from "../ui/notice";
import { Refusal, sayStored } from "../ui/save";
import { BasicFields } from "./basic-fields";
import classes from "./editor.module.css";
import { FailureFields, PrecedenceFields } from "./failure-fields";
import { fieldOf } from "./fields";
import { documentOf, formOf, NEW_RULE, type RuleForm } from "./form";
import { LimitFields } from "./limit-fields";
import { KeyFields, MatchFields } from "./match-fields";
import { Preview } from "./preview";

interface Props {
  domain: string;
  /** The rule as it was read; absent for a new one. */
  before?: Rule;
  /** What a new rule starts from. */
  start?: RuleForm;
  warnings: readonly string[];
  /** Reads the rule anew and gives it back. */
  reload?: () => Promise<Rule | undefined>;
}

export function RuleEditor({ domain, before, start = NEW_RULE, warnings, reload }: Props) {
  const navigate = useNavigate();
  const mayWrite = useMay("operator");
  const { data: tiers = [] } = useTiers(domain);
  const form = useForm<RuleForm>({ initialValues: before ? formOf(before) : start });
  const save = useSaveRule(domain);
  const check = useCheckRule(domain);
  const [refusal, setRefusal] = useState<{ error: unknown; others: Mistake[]; marked: number }>();
  const [valid, setValid] = useState(false);
  const stored = useRef(false);
  const rule = documentOf(form.values);

  const refuse = (error: unknown) => {
    const { fields, others } = placeMistakes(asApiError(error).mistakes, (pointer) => fieldOf(pointer, form.values));
    const placed = { ...fields, ...nameTaken(error, before) };
    form.setErrors(placed);
    setRefusal({ error, others, marked: Object.keys(placed).length });
    focusFirstError();
  };
  const begin = () => {
    form.clearErrors();
    setRefusal(undefined);
    setValid(false);
  };
  const store = async (over: Rule | undefined) => {
    begin();
    try {
      const { revision } = await save.mutateAsync({ rule, ...(over ? { before: over } : {}) });
      stored.current = true;
      sayStored(before ? `Rule ${rule.name} saved` : `Rule ${rule.name} created`, domain, revision);
      await navigate({ to: "/rules" });
    } catch (error) {
      refuse(error);
    }
  };
  const verify = async () => {
    begin();
    try {
      await check.mutateAsync({ rule, ...(before ? { before } : {}) });
      setValid(true);
    } catch (error) {
      refuse(error);
    }
  };
  const overwrite = async () => store(await reload?.());
  const takeTheirs = async () => {
    const theirs = await reload?.();
    if (!theirs) return;
    begin();
    form.setInitialValues(formOf(theirs));
    form.setValues(formOf(theirs));
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void store(before);
  };

  return (
    <form onSubmit={submit} noValidate className={classes.columns}>
      <LeaveGuard dirty={() => form.isDirty() && !stored.current} />
      <div className={classes.fields}>
        <BasicFields form={form} named={before !== undefined} />
        <MatchFields form={form} />
        <KeyFields form={form} />
        <LimitFields form={form} tiers={tiers} />
        <FailureFields form={form} />
        <PrecedenceFields form={form} />
      </div>
      <div className={classes.aside}>
        {refusal && (
          <Refusal
            error={refusal.error}
            mistakes={refusal.others}
            marked={refusal.marked}
            onReload={() => void takeTheirs()}
            onOverwrite={() => void overwrite()}
          />
        )}
        {mayWrite ? (
          <div className={classes.buttons}>
            <Button type="submit" loading={save.isPending}>
              {before ? "Save rule" : "Create rule"}
            </Button>
            <Button variant="default" loading={check.isPending} onClick={() => void verify()}>
              {valid ? "Valid" : "Check"}
            </Button>
          </div>
        ) : (
          <Notice tone="warn">Your role reads rules and does not change them.</Notice>
        )}
        <Preview rule={rule} warnings={warnings} />
      </div>
    </form>
  );
}

/** A name that exists already is a matter of the name field, whether or not the server points there. */
function nameTaken(error: unknown, before: Rule | undefined): Record<string, string> {
  const taken = before === undefined && asApiError(error).status === 409;
  return taken ? { name: "A rule of this name exists already." } : {};
}

/** Leads keyboard and screen reader to the first field that needs another look. */
function focusFirstError(): void {
  requestAnimationFrame(() => document.querySelector<HTMLElement>('form [aria-invalid="true"]')?.focus());
}
