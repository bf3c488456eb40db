import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { Empty } from "../ui/state";

/** An address that leads nowhere. */
export function Lost() {
  return (
    <Empty icon="search" title="There is no such page">
      <Button renderRoot={(props) => <Link to="/" {...props} />} variant="default" mt="sm">
        Go to the overview
      </Button>
    </Empty>
  );
}
