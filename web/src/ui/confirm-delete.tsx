import { Button, Group, Modal } from "@mantine/core";
import type { ReactNode } from "react";
import { Refusal } from "./save";

interface Props {
  /** `rule`, `tier`, ...; undefined name: closed. */
  kind: string;
  name: string | undefined;
  /** What follows from it. */
  children: ReactNode;
  pending: boolean;
  error: unknown;
  onDelete: () => void;
  onClose: () => void;
  /** The word on the button: `Delete`, `Revoke`. */
  verb?: string;
  /** The word for not doing it. */
  keep?: string;
}

/** The second look before something is gone; it names what that is. */
export function ConfirmDelete({
  kind,
  name,
  children,
  pending,
  error,
  onDelete,
  onClose,
  verb = "Delete",
  keep = "Keep it",
}: Props) {
  return (
    <Modal
      opened={name !== undefined}
      onClose={onClose}
      title={`${verb} this ${kind}?`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <p>
        <bdi>
          <strong>{name}</strong>
        </bdi>{" "}
        {children}
      </p>
      <Refusal error={error} onReload={onClose} />
      <Group justify="flex-end" mt="lg">
        <Button variant="default" data-autofocus onClick={onClose}>
          {keep}
        </Button>
        <Button color="red.9" loading={pending} onClick={onDelete}>
          {verb} {kind}
        </Button>
      </Group>
    </Modal>
  );
}
