import { ActionIcon, Anchor, Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useAlerts, useDeleteAlert } from "../api/alerts";
import type { Alert } from "../api/model";
import { useDomain } from "../app/domain";
import { share } from "../format/number";
import { spanWords } from "../format/span";
import { ago, at } from "../format/time";
import { useMay } from "../session/session";
import { ConfirmDelete } from "../ui/confirm-delete";
import { type Column, DataTable } from "../ui/data-table";
import { Icon } from "../ui/icon";
import { Mark, type Tone } from "../ui/mark";
import { Page, Panel } from "../ui/page";
import { Empty, Loaded } from "../ui/state";
import { AlertForm } from "./form";
import classes from "./page.module.css";

export default function AlertsPage() {
  const domain = useDomain();
  const alerts = useAlerts(domain);
  const mayWrite = useMay("operator");
  const [editing, setEditing] = useState<Alert | "new">();
  const [deleting, setDeleting] = useState<Alert>();
  return (
    <Page
      title="Alerts"
      lead="A rule that refuses more than so much for so long tells a webhook, and you."
      actions={
        mayWrite && (
          <Button leftSection={<Icon name="plus" />} onClick={() => setEditing("new")}>
            New alert
          </Button>
        )
      }
    >
      <Panel flush>
        <Loaded query={alerts}>
          {(all) =>
            all.length === 0 ? (
              <Empty icon="alerts" title="No alerts yet">
                Set one up to be told when a rule refuses more than usual.
              </Empty>
            ) : (
              <DataTable
                label="Alerts"
                columns={columns(mayWrite ? { edit: setEditing, remove: setDeleting } : undefined)}
                rows={all}
                rowKey={(alert) => alert.name}
                sortBy="name"
                tone={(alert) => (alert.state?.firing ? "bad" : undefined)}
              />
            )
          }
        </Loaded>
      </Panel>
      {editing && (
        <AlertForm
          domain={domain}
          {...(editing === "new" ? {} : { before: editing })}
          reread={async () => (await alerts.refetch()).data}
          onClose={() => setEditing(undefined)}
        />
      )}
      <DeleteAlert domain={domain} alert={deleting} onClose={() => setDeleting(undefined)} />
    </Page>
  );
}

interface Actions {
  edit: (alert: Alert) => void;
  remove: (alert: Alert) => void;
}

function columns(actions: Actions | undefined): Column<Alert>[] {
  const list: Column<Alert>[] = [
    {
      key: "name",
      header: "Name",
      main: true,
      sort: (alert) => alert.name,
      cell: (alert) => <strong>{alert.name}</strong>,
    },
    {
      key: "state",
      header: "State",
      sort: (alert) => (alert.state?.firing ? 0 : 1),
      cell: (alert) => <State alert={alert} />,
    },
    {
      key: "rule",
      header: "Rule",
      sort: (alert) => alert.rule,
      cell: (alert) => (
        <Anchor renderRoot={(props) => <Link to="/" search={{ rule: alert.rule, range: "1h" }} {...props} />}>
          {alert.rule}
        </Anchor>
      ),
    },
    {
      key: "condition",
      header: "When",
      cell: (alert) => `more than ${alert.denied_share_percent} % denied for ${spanWords(alert.for)}`,
    },
    {
      key: "webhook",
      header: "Webhook",
      cell: (alert) =>
        alert.webhook ? (
          <bdi className={classes.url}>{alert.webhook.url}</bdi>
        ) : (
          <span className={classes.soft}>none</span>
        ),
    },
    { key: "delivery", header: "Last delivery", cell: (alert) => <Delivery alert={alert} /> },
  ];
  if (!actions) return list;
  const buttons = (alert: Alert) => (
    <>
      <ActionIcon
        variant="subtle"
        color="gray"
        aria-label={`Edit alert ${alert.name}`}
        onClick={() => actions.edit(alert)}
      >
        <Icon name="edit" />
      </ActionIcon>
      <ActionIcon
        variant="subtle"
        color="gray"
        aria-label={`Delete alert ${alert.name}`}
        onClick={() => actions.remove(alert)}
      >
        <Icon name="trash" />
      </ActionIcon>
    </>
  );
  return [...list, { key: "actions", header: "Actions", actions: true, cell: buttons }];
}

function State({ alert }: { alert: Alert }) {
  if (alert.enabled === false) return <Mark tone="idle">Switched off</Mark>;
  const { firing, since, denied_share } = alert.state ?? {};
  const now = typeof denied_share === "number" ? ` (${share(denied_share)} denied)` : "";
  if (!firing) return <Mark tone="good">Quiet{now}</Mark>;
  return (
    <span title={at(since)}>
      <Mark tone="bad">
        Firing {ago(since, Date.now()).replace(/ ago$/, "")}
        {now}
      </Mark>
    </span>
  );
}

const DELIVERY_TONES: Record<string, Tone> = { delivered: "good", failed: "bad", pending: "warn" };

function Delivery({ alert }: { alert: Alert }) {
  const { delivery, last_delivery } = alert.state ?? {};
  if (!delivery) return <span className={classes.soft}>–</span>;
  return (
    <span title={delivery.last_error || at(last_delivery)}>
      <Mark tone={DELIVERY_TONES[delivery.state] ?? "idle"}>
        {delivery.state} {ago(last_delivery, Date.now())}
      </Mark>
    </span>
  );
}

function DeleteAlert({ domain, alert, onClose }: { domain: string; alert: Alert | undefined; onClose: () => void }) {
  const remove = useDeleteAlert(domain);
  const close = () => {
    remove.reset();
    onClose();
  };
  const go = async () => {
    if (!alert) return;
    await remove.mutateAsync(alert);
    close();
  };
  return (
    <ConfirmDelete
      kind="alert"
      name={alert?.name}
      pending={remove.isPending}
      error={remove.error}
      onDelete={() => void go().catch(() => undefined)}
      onClose={close}
    >
      tells nobody any more.
    </ConfirmDelete>
  );
}
