import { expect, test } from "vitest";
import type { Agent } from "../api/model";
import { convergence, shardHealth } from "./convergence";

function agent(
  name: string,
  state: "current" | "pending" | "refused" | "offline",
  breakers: Record<string, string> = {},
): Agent {
  return {
    name,
    connected: state !== "offline",
    domains: [{ domain: "default", revision: state === "current" ? 12 : 11, latest: 12, hash: "", state, errors: [] }],
    shards: Object.entries(breakers).map(([shard, breaker]) => ({
      shard,
      breaker,
      last_error: breaker === "closed" ? null : "timeout",
    })),
  } as unknown as Agent;
}

test("only connected agents count towards the newest revision", () => {
  const agents = [agent("a", "current"), agent("b", "refused"), agent("c", "pending"), agent("d", "offline")];
  expect(convergence(agents, "default")).toEqual({
    latest: 12,
    connected: 3,
    current: 1,
    refused: ["b"],
    pending: ["c"],
    offline: ["d"],
  });
  expect(convergence(agents, "other").connected).toBe(0);
});

test("a shard is as well as the worst view of it", () => {
  const agents = [
    agent("a", "current", { s1: "closed", s2: "open" }),
    agent("b", "current", { s1: "closed", s2: "closed" }),
  ];
  const [s1, s2, s3] = shardHealth(agents, ["s1", "s2", "s3"]);
  expect(s1).toMatchObject({ tone: "good", reached: 2, watching: 2 });
  expect(s2).toMatchObject({ tone: "bad", reached: 1, watching: 2, error: "timeout" });
  expect(s3).toMatchObject({ tone: "idle", watching: 0 });
});

test("what an agent that is gone said of its shards does not count", () => {
  expect(shardHealth([agent("a", "offline", { s1: "open" })], ["s1"])[0]?.tone).toBe("idle");
});
