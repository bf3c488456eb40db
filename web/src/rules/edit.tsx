import { Button } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import type { Rule } from "../api/model";
import { useDeleteRule, useLint, useRule } from "../api/rules";
import { useDomain } from "../app/domain";
import { ago } from "../format/time";
import { useMay } from "../session/session";
import { ConfirmDelete } from "../ui/confirm-delete";
import { Icon } from "../ui/icon";
import { Page } from "../ui/page";
import { sayStored } from "../ui/save";
import { Loaded } from "../ui/state";
import { RuleEditor } from "./editor";

export default function EditRulePage() {
  const { name = "" } = useSearch({ from: "/shell/rules/edit" });
  const domain = useDomain();
  const rule = useRule(domain, name);
  const lint = useLint(domain);
  const mayWrite = useMay("operator");
  const meta = rule.data?.meta;
  return (
    <Page
      title={name}
      lead={
        meta && `Last changed by ${meta.updated_by} ${ago(meta.updated_at, Date.now())}, revision ${meta.revision}.`
      }
      actions={rule.data && mayWrite && <Delete rule={rule.data} domain={domain} />}
    >
      <Loaded query={rule} rows={10}>
        {(read) => (
          <RuleEditor
            key={`${domain}/${name}`}
            domain={domain}
            before={read}
            warnings={lint.data?.get(name) ?? []}
            reload={async () => (await rule.refetch()).data}
          />
        )}
      </Loaded>
    </Page>
  );
}

function Delete({ rule, domain }: { rule: Rule; domain: string }) {
  const [asking, setAsking] = useState(false);
  const navigate = useNavigate();
  const remove = useDeleteRule(domain);
  const close = () => {
    setAsking(false);
    remove.reset();
  };
  const go = async () => {
    const { revision } = await remove.mutateAsync(rule);
    sayStored(`Rule ${rule.name} deleted`, domain, revision);
    await navigate({ to: "/rules", ignoreBlocker: true });
  };
  return (
    <>
      <Button variant="default" leftSection={<Icon name="trash" />} onClick={() => setAsking(true)}>
        Delete
      </Button>
      <ConfirmDelete
        kind="rule"
        name={asking ? rule.name : undefined}
        pending={remove.isPending}
        error={remove.error}
        onDelete={() => void go().catch(() => undefined)}
        onClose={close}
      >
        stops limiting at once, on every agent. Its counters are forgotten.
      </ConfirmDelete>
    </>
  );
}
