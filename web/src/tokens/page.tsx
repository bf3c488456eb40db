import { Button, Group, Modal, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { Fragment, useState } from "react";
import type { Token } from "../api/model";
import { useRevokeToken, useSignInLink, useTokens } from "../api/tokens";
import { ago, at } from "../format/time";
import { useMay } from "../session/session";
import { ConfirmDelete } from "../ui/confirm-delete";
import { Command } from "../ui/copy";
import { type Column, DataTable } from "../ui/data-table";
import { Icon } from "../ui/icon";
import { Mark, Tag } from "../ui/mark";
import { useNow } from "../ui/now";
import { Page, Panel } from "../ui/page";
import { Refusal } from "../ui/save";
import { Empty, Loaded } from "../ui/state";
import { TokenForm } from "./form";

export default function TokensPage() {
  const tokens = useTokens();
  const now = useNow(30_000);
  const isAdmin = useMay("admin");
  const [creating, form] = useDisclosure(false);
  const [revoking, setRevoking] = useState<Token>();
  return (
    <Page
      title="Tokens"
      lead="Credentials of people, programs and agents. A secret is shown once and stored only as a hash."
      actions={
        isAdmin && (
          <>
            <SignInLink />
            <Button leftSection={<Icon name="plus" />} onClick={form.open}>
              New token
            </Button>
          </>
        )
      }
    >
      <Panel flush>
        <Loaded query={tokens}>
          {(all) =>
            all.length === 0 ? (
              <Empty icon="tokens" title="No tokens yet" />
            ) : (
              <DataTable
                label="Tokens"
                columns={columns(now, isAdmin ? setRevoking : undefined)}
                rows={all}
                rowKey={(token) => token.id}
                sortBy="name"
                tone={(token) => (expired(token, now) ? "off" : undefined)}
              />
            )
          }
        </Loaded>
      </Panel>
      {creating && <TokenForm onClose={form.close} />}
      <RevokeToken token={revoking} onClose={() => setRevoking(undefined)} />
    </Page>
  );
}

function columns(now: number, revoke: ((token: Token) => void) | undefined): Column<Token>[] {
  const list: Column<Token>[] = [
    {
      key: "name",
      header: "Name",
      main: true,
      sort: (token) => token.name,
      cell: (token) => (
        <bdi>
          <strong>{token.name}</strong>
        </bdi>
      ),
    },
    {
      key: "kind",
      header: "For",
      sort: (token) => token.kind,
      cell: (token) => (token.kind === "agent" ? "An agent" : "The API"),
    },
    {
      key: "role",
      header: "Role",
      sort: (token) => token.role ?? "",
      cell: (token) => (token.kind === "agent" ? "–" : token.role),
    },
    { key: "domains", header: "Domains", cell: (token) => <Domains token={token} /> },
    {
      key: "created",
      header: "Created",
      sort: (token) => Date.parse(token.created_at),
      cell: (token) => <Moment time={token.created_at} now={now} />,
    },
    {
      key: "used",
      header: "Last used",
      sort: (token) => Date.parse(token.last_used_at ?? "") || 0,
      cell: (token) => <Moment time={token.last_used_at} now={now} />,
    },
    {
      key: "expires",
      header: "Expires",
      sort: (token) => Date.parse(token.expires_at ?? "") || Number.MAX_VALUE,
      cell: (token) => <Expiry token={token} now={now} />,
    },
  ];
  if (!revoke) return list;
  const button = (token: Token) => (
    <Button
      size="compact-sm"
      variant="subtle"
      color="red"
      aria-label={`Revoke token ${token.name}`}
      onClick={() => revoke(token)}
    >
      Revoke
    </Button>
  );
  return [...list, { key: "actions", header: "Actions", actions: true, cell: button }];
}

function Domains({ token }: { token: Token }) {
  if (!token.domains) return "all";
  return (
    <span>
      {token.domains.map((domain) => (
        <Fragment key={domain}>
          <Tag>{domain}</Tag>{" "}
        </Fragment>
      ))}
    </span>
  );
}

function Moment({ time, now }: { time: string | null | undefined; now: number }) {
  return <span title={at(time)}>{ago(time, now)}</span>;
}

function Expiry({ token, now }: { token: Token; now: number }) {
  if (!token.expires_at) return "never";
  if (expired(token, now)) return <Mark tone="idle">Expired</Mark>;
  return <Moment time={token.expires_at} now={now} />;
}

function expired(token: Token, now: number): boolean {
  return Boolean(token.expires_at) && Date.parse(token.expires_at ?? "") <= now;
}

function SignInLink() {
  const link = useSignInLink();
  return (
    <>
      <Button variant="default" loading={link.isPending} onClick={() => link.mutate()}>
        Sign-in link
      </Button>
      <Modal
        opened={link.data !== undefined || link.error !== null}
        onClose={link.reset}
        title="One-time sign-in link"
        size="lg"
        closeButtonProps={{ "aria-label": "Close" }}
      >
        <Refusal error={link.error} />
        {link.data && (
          <>
            <Text mb="sm">
              Whoever opens it first is signed in like you. It works once, until {at(link.data.expires_at)}.
            </Text>
            <Command text={link.data.url} />
          </>
        )}
        <Group justify="flex-end" mt="lg">
          <Button onClick={link.reset}>Done</Button>
        </Group>
      </Modal>
    </>
  );
}

function RevokeToken({ token, onClose }: { token: Token | undefined; onClose: () => void }) {
  const revoke = useRevokeToken();
  const close = () => {
    revoke.reset();
    onClose();
  };
  const go = async () => {
    if (!token) return;
    await revoke.mutateAsync(token.id);
    close();
  };
  return (
    <ConfirmDelete
      kind="token"
      verb="Revoke"
      name={token?.name}
      pending={revoke.isPending}
      error={revoke.error}
      onDelete={() => void go().catch(() => undefined)}
      onClose={close}
    >
      stops working at once, for everything that uses it.
    </ConfirmDelete>
  );
}
