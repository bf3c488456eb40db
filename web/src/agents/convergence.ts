/** Which revision the fleet runs, and how its shards do: summed up from what each agent says. */
import type { Agent, AgentSet } from "../api/model";
import type { Tone } from "../ui/mark";

export interface Convergence {
  /** The newest revision, as far as the agents know of it. */
  latest: number;
  connected: number;
  current: number;
  refused: string[];
  pending: string[];
  offline: string[];
}

/** How far the newest revision of `domain` has come among its agents. */
export function convergence(agents: readonly Agent[], domain: string): Convergence {
  const result: Convergence = { latest: 0, connected: 0, current: 0, refused: [], pending: [], offline: [] };
  for (const agent of agents) {
    const set = agent.domains.find((d) => (d.domain ?? "") === domain);
    if (!set) continue;
    result.latest = Math.max(result.latest, set.latest, set.revision);
    if (!agent.connected) {
      result.offline.push(agent.name);
      continue;
    }
    result.connected += 1;
    if (set.state === "current") result.current += 1;
    else if (set.state === "refused") result.refused.push(agent.name);
    else result.pending.push(agent.name);
  }
  return result;
}

export interface ShardHealth {
  shard: string;
  tone: Tone;
  /** `reached by 2 of 2 agents`. */
  reached: number;
  watching: number;
  error: string | undefined;
}

/** How each shard looks from the agents that are connected; `known` shards that none of them speaks of are listed too. */
export function shardHealth(agents: readonly Agent[], known: readonly string[]): ShardHealth[] {
  const connected = agents.filter((agent) => agent.connected);
  const seen = connected.flatMap((agent) => agent.shards.map((shard) => shard.shard));
  const names = [...new Set([...known, ...seen])].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return names.map((shard) => {
    const views = connected.flatMap((agent) => agent.shards.filter((view) => view.shard === shard));
    const reached = views.filter((view) => breakerTone(view.breaker) === "good").length;
    const broken = views.find((view) => breakerTone(view.breaker) !== "good");
    return {
      shard,
      tone: toneOf(views.map((view) => view.breaker)),
      reached,
      watching: views.length,
      error: broken?.last_error ?? undefined,
    };
  });
}

function toneOf(breakers: readonly string[]): Tone {
  if (breakers.length === 0) return "idle";
  const tones = breakers.map(breakerTone);
  if (tones.every((tone) => tone === "good")) return "good";
  return tones.includes("bad") ? "bad" : "warn";
}

/** Closed: calls flow. Open: calls stopped. Half open: probing. */
export function breakerTone(breaker: string): Tone {
  if (breaker === "closed") return "good";
  return breaker === "open" ? "bad" : "warn";
}

export const STATE_WORDS: Record<AgentSet["state"], { tone: Tone; label: string }> = {
  current: { tone: "good", label: "Current" },
  pending: { tone: "warn", label: "Pending" },
  refused: { tone: "bad", label: "Refused" },
  offline: { tone: "idle", label: "Offline" },
};
