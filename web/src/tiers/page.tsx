import { ActionIcon, Button } from "@mantine/core";
import { useState } from "react";
import type { Rule, Tier } from "../api/model";
import { useRules } from "../api/rules";
import { useDeleteTier, useTiers } from "../api/tiers";
import { useDomain } from "../app/domain";
import { ago, at } from "../format/time";
import { limitWords } from "../rules/words";
import { useMay } from "../session/session";
import { ConfirmDelete } from "../ui/confirm-delete";
import { type Column, DataTable } from "../ui/data-table";
import { Icon } from "../ui/icon";
import { Mark } from "../ui/mark";
import { Page, Panel } from "../ui/page";
import { sayStored } from "../ui/save";
import { Empty, Loaded } from "../ui/state";
import { TierForm } from "./form";
import classes from "./page.module.css";

export default function TiersPage() {
  const domain = useDomain();
  const tiers = useTiers(domain);
  const rules = useRules(domain);
  const mayWrite = useMay("operator");
  const [editing, setEditing] = useState<Tier | "new">();
  const [deleting, setDeleting] = useState<Tier>();
  // A new tier may need limits in rules, so the form begins once they are known.
  const mayBegin = rules.data !== undefined;
  const table = columns(rules.data ?? [], mayWrite ? { edit: setEditing, remove: setDeleting } : undefined);
  return (
    <Page
      title="Tiers"
      lead="The plans that subjects are on. Rules give each tier its own limit."
      actions={
        mayWrite && (
          <Button leftSection={<Icon name="plus" />} onClick={() => setEditing("new")}>
            New tier
          </Button>
        )
      }
    >
      <Panel flush>
        <Loaded query={tiers}>
          {(all) =>
            all.length === 0 ? (
              <Empty icon="tiers" title="No tiers yet">
                A rule with only a limit for <code>*</code> needs none.
              </Empty>
            ) : (
              <DataTable label="Tiers" columns={table} rows={all} rowKey={(tier) => tier.name} sortBy="name" />
            )
          }
        </Loaded>
      </Panel>
      {editing && mayBegin && (
        <TierForm
          domain={domain}
          tiers={tiers.data ?? []}
          rules={rules.data ?? []}
          {...(editing === "new" ? {} : { before: editing })}
          reread={async () => (await tiers.refetch()).data}
          onClose={() => setEditing(undefined)}
        />
      )}
      <DeleteTier domain={domain} tier={deleting} onClose={() => setDeleting(undefined)} />
    </Page>
  );
}

interface Actions {
  edit: (tier: Tier) => void;
  remove: (tier: Tier) => void;
}

function columns(rules: readonly Rule[], actions: Actions | undefined): Column<Tier>[] {
  const limitsOf = (tier: Tier) => rules.filter((rule) => rule.limits[tier.name] !== undefined);
  const list: Column<Tier>[] = [
    {
      key: "name",
      header: "Name",
      main: true,
      sort: (tier) => tier.name,
      cell: (tier) => (
        <>
          <strong>{tier.name}</strong>
          {tier.description && <div className={classes.soft}>{tier.description}</div>}
        </>
      ),
    },
    {
      key: "default",
      header: "Default",
      cell: (tier) =>
        tier.default ? (
          <Mark tone="good">For subjects of no or an unknown tier</Mark>
        ) : (
          <span className={classes.soft}>–</span>
        ),
    },
    {
      key: "limits",
      header: "Own limits",
      sort: (tier) => limitsOf(tier).length,
      cell: (tier) => <OwnLimits tier={tier} rules={limitsOf(tier)} />,
    },
    {
      key: "updated",
      header: "Changed",
      sort: (tier) => Date.parse(tier.meta?.updated_at ?? ""),
      cell: (tier) => <span title={at(tier.meta?.updated_at)}>{ago(tier.meta?.updated_at, Date.now())}</span>,
    },
  ];
  if (!actions) return list;
  return [
    ...list,
    { key: "actions", header: "Actions", actions: true, cell: (tier) => <RowActions tier={tier} {...actions} /> },
  ];
}

function OwnLimits({ tier, rules }: { tier: Tier; rules: readonly Rule[] }) {
  if (rules.length === 0) return <span className={classes.soft}>none: “*” applies</span>;
  return (
    <ul className={classes.limits}>
      {rules.slice(0, 5).map((rule) => (
        <li key={rule.name}>
          <span className={classes.soft}>{rule.name}</span> {limitWords(rule.limits[tier.name] ?? {})}
        </li>
      ))}
      {rules.length > 5 && <li className={classes.soft}>and {rules.length - 5} more</li>}
    </ul>
  );
}

function RowActions({ tier, edit, remove }: { tier: Tier } & Actions) {
  return (
    <>
      <ActionIcon variant="subtle" color="gray" aria-label={`Edit tier ${tier.name}`} onClick={() => edit(tier)}>
        <Icon name="edit" />
      </ActionIcon>
      <ActionIcon variant="subtle" color="gray" aria-label={`Delete tier ${tier.name}`} onClick={() => remove(tier)}>
        <Icon name="trash" />
      </ActionIcon>
    </>
  );
}

function DeleteTier({ domain, tier, onClose }: { domain: string; tier: Tier | undefined; onClose: () => void }) {
  const remove = useDeleteTier(domain);
  const close = () => {
    remove.reset();
    onClose();
  };
  const go = async () => {
    if (!tier) return;
    const { revision } = await remove.mutateAsync(tier);
    sayStored(`Tier ${tier.name} deleted`, domain, revision);
    close();
  };
  return (
    <ConfirmDelete
      kind="tier"
      name={tier?.name}
      pending={remove.isPending}
      error={remove.error}
      onDelete={() => void go().catch(() => undefined)}
      onClose={close}
    >
      will be unknown: its subjects fall to the default tier. It can only go while no rule gives it a limit; a rule that
      names each tier needs a limit for “all others” before.
    </ConfirmDelete>
  );
}
