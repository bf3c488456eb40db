import { Tooltip } from "@mantine/core";
import { asApiError } from "../api/problem";
import { ago, timeOfDay } from "../format/time";
import { Mark } from "./mark";
import { useNow } from "./now";

interface Props {
  updatedAt: number;
  error: unknown;
  live: boolean;
}

/** Data older than this is no longer live. */
const STALE_MILLIS = 10_000;

/** How old the data on the screen is; data that a failed refresh left in place is marked. */
export function Freshness({ updatedAt, error, live }: Props) {
  const now = useNow();
  if (updatedAt === 0) return null;
  if (error || (live && now - updatedAt > STALE_MILLIS)) {
    return (
      <Tooltip label={error ? asApiError(error).title : "The last refresh has not come back yet."}>
        <span role="status">
          <Mark tone="warn">Stale: from {ago(updatedAt, now)}</Mark>
        </span>
      </Tooltip>
    );
  }
  return live ? <Mark tone="good">Live</Mark> : <Mark tone="idle">As of {timeOfDay(updatedAt)}</Mark>;
}
