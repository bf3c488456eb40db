import { useEffect, useState } from "react";

/** The time, again every `everyMillis`, for what ages on the screen. */
export function useNow(everyMillis = 1_000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMillis);
    return () => clearInterval(timer);
  }, [everyMillis]);
  return now;
}
