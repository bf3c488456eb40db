/** What is said about a write: where it stands, why it was refused, and how far it has come. */

import { Button, Group } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import type { Mistake } from "../api/model";
import { asApiError } from "../api/problem";
import { Icon } from "./icon";
import { Notice } from "./notice";
import { Rollout } from "./rollout";

/** Tells that `what` was stored, and follows its revision to the agents. */
export function sayStored(what: string, domain: string, revision: number | undefined): void {
  notifications.show({
    color: "teal",
    title: what,
    icon: <Icon name="check" />,
    withBorder: true,
    autoClose: 8_000,
    closeButtonProps: { "aria-label": "Dismiss" },
    message: revision === undefined ? undefined : <Rollout domain={domain} revision={revision} />,
  });
}

interface RefusalProps {
  error: unknown;
  /** Mistakes that no field shows. */
  mistakes?: readonly Mistake[];
  /** How many fields show one. */
  marked?: number;
  /** For a document that changed meanwhile: what to do about it. */
  onReload?: () => void;
  onOverwrite?: () => void;
}

/** Why a write was refused. What belongs to a field is said there. */
export function Refusal({ error, mistakes = [], marked = 0, onReload, onOverwrite }: RefusalProps) {
  if (!error) return null;
  const problem = asApiError(error);
  if (problem.conflict) return <Conflict onReload={onReload} onOverwrite={onOverwrite} />;
  return (
    <Notice tone="bad" title={marked > 0 ? "Some fields need another look" : problem.title} urgent>
      {marked === 0 && mistakes.length === 0 && problem.detail !== problem.title && <div>{problem.detail}</div>}
      {mistakes.map(({ pointer, detail }) => (
        <div key={pointer + detail}>
          {pointer && <code>{pointer}</code>} {detail}
        </div>
      ))}
      {problem.usedBy.length > 0 && <UsedBy names={problem.usedBy} />}
    </Notice>
  );
}

function UsedBy({ names }: { names: readonly string[] }) {
  return (
    <div>
      Still used by{" "}
      {names.map((name, i) => (
        <span key={name}>
          {i > 0 && ", "}
          <bdi>
            <strong>{name}</strong>
          </bdi>
        </span>
      ))}
      .
    </div>
  );
}

function Conflict({ onReload, onOverwrite }: Pick<RefusalProps, "onReload" | "onOverwrite">) {
  return (
    <Notice tone="warn" title="Someone else changed this meanwhile" urgent>
      <p>Nothing was stored. You can load what is there now and lose your edits, or store yours in its place.</p>
      <Group gap="xs" mt="xs">
        {onReload && (
          <Button size="xs" variant="default" onClick={onReload}>
            Load theirs
          </Button>
        )}
        {onOverwrite && (
          <Button size="xs" variant="default" onClick={onOverwrite}>
            Store mine instead
          </Button>
        )}
      </Group>
    </Notice>
  );
}
